#include "comm/transport.hpp"

#include <array>

#include "core/error.hpp"

namespace shardstream::comm {
namespace {

constexpr std::array rows = {
    OptionRow{"comm.transport", OptionKind::choice, "auto", "auto|nccl|mpi",
              "Library that combines the ranks' results; auto is NCCL between GPUs and MPI "
              "otherwise; mpi on GPUs goes through host memory."},
    OptionRow{
        "comm.timeout", OptionKind::duration, "300s", "1s..",
        "Seconds without any progress after which the hanging rank is named and the job ends."},
};

}  // namespace

std::span<const OptionRow> comm_options() {
  return rows;
}

Transport choose_transport(const std::string& wanted, const Circumstances& here) {
  if (wanted == "mpi") return Transport::mpi;
  if (wanted == "nccl") {
    if (!here.on_gpus) {
      throw UsageError(
          "--comm.transport nccl: NCCL needs GPUs, but this run uses the host backend: pass "
          "--comm.transport auto, or --device.backend cuda");
    }
    if (!here.has_nccl) {
      throw UsageError(
          "--comm.transport nccl: this program was built without NCCL: pass --comm.transport mpi, "
          "or build it on a machine that has NCCL");
    }
    if (here.shared_gpus) {
      throw UsageError(
          "--comm.transport nccl: NCCL rejects two ranks on one GPU: pass --comm.transport mpi, or "
          "start one rank per GPU");
    }
    return Transport::nccl;
  }
  const bool fits = here.on_gpus && here.has_nccl && !here.shared_gpus && here.ranks > 1;
  return fits ? Transport::nccl : Transport::mpi;
}

}  // namespace shardstream::comm
