#include "experiments/execution/sharing_ways.hpp"

#include "experiments/bench.hpp"

namespace shardstream::experiments::execution {

std::vector<SharingWay> ways_to_share(const SharingFacts& facts) {
  if (facts.mode == ComputeMode::prohibited) {
    throw NotAvailable(
        "the compute mode of the GPU prohibits its use: an administrator can change it (nvidia-smi "
        "-c DEFAULT)");
  }
  if (facts.mode == ComputeMode::exclusive && !facts.has_mps) {
    throw NotAvailable(
        "the compute mode of the GPU is exclusive, and MPS does not run, so a second process "
        "cannot "
        "use the GPU: an administrator can change the mode (nvidia-smi -c DEFAULT) or start MPS "
        "(nvidia-cuda-mps-control -d)");
  }
  if (facts.mode == ComputeMode::exclusive) return {SharingWay::with_mps};
  if (facts.has_mps) return {SharingWay::without_mps, SharingWay::with_mps};
  return {SharingWay::without_mps};
}

bool has_control_pipe(const char* directory) {
  std::error_code error;  // a directory that cannot be read has no pipe for this user
  return std::filesystem::exists(
      std::filesystem::path(directory == nullptr ? "/tmp/nvidia-mps" : directory) / "control",
      error);
}

}  // namespace shardstream::experiments::execution
