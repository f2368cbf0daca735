#include "comm/transport.hpp"

#include "core/error.hpp"

namespace shardstream::comm {
Transport choose_transport(const std::string& wanted, const Circumstances& here) {
  if (wanted == "mpi") return Transport::mpi;
  if (wanted == "nccl") {
    if (!here.on_gpus) {
      throw UsageError(
          "--comm.transport nccl: NCCL works between GPUs, and this run is on the host backend: "
          "pass --comm.transport auto, or --device.backend cuda");
    }
    if (!here.has_nccl) {
      throw UsageError(
          "--comm.transport nccl: this program was built without NCCL: pass --comm.transport mpi, "
          "or build it where NCCL is installed");
    }
    if (here.shared_gpus) {
      throw UsageError(
          "--comm.transport nccl: NCCL refuses two ranks on one GPU: pass --comm.transport mpi, or "
          "start one rank a GPU");
    }
    return Transport::nccl;
  }
  const bool fits = here.on_gpus && here.has_nccl && !here.shared_gpus && here.ranks > 1;
  return fits ? Transport::nccl : Transport::mpi;
}

}  // namespace shardstream::comm
