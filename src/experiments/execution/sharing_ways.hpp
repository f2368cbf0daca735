// The ways in which several processes can use one GPU on this machine: pure functions of facts
// about the GPU and of MPS, NVIDIA's Multi-Process Service.
#pragma once

#include <filesystem>
#include <vector>

namespace shardstream::experiments::execution {

/// The compute mode of a GPU, which its administrator sets (nvidia-smi -c).
enum class ComputeMode {
  shared,     ///< any number of processes may use the GPU: "Default"
  exclusive,  ///< one process: "Exclusive_Process"
  prohibited  ///< none
};

struct SharingFacts {
  ComputeMode mode = ComputeMode::shared;
  bool has_mps = false;  ///< whether new processes become clients of MPS
};

enum class SharingWay {
  without_mps,  ///< each process has its own context on the GPU
  with_mps      ///< a server makes the kernels of all processes run in one context
};

/// The ways that the facts allow. Throws NotAvailable if there is none.
std::vector<SharingWay> ways_to_share(const SharingFacts& facts);

/// Whether a control daemon of MPS has its pipe in `directory`, the value of
/// CUDA_MPS_PIPE_DIRECTORY (null: not set; then it is /tmp/nvidia-mps). A daemon that was killed
/// may have left it there.
bool has_control_pipe(const char* directory);

}  // namespace shardstream::experiments::execution
