#include "gpu_copy.hpp"

#include <cuda_runtime_api.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(status));
}

}  // namespace

Copy copy_to_gpu(std::size_t room) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, room), "cudaMalloc");
  const std::shared_ptr<void> owner(memory, [](void* pointer) { cudaFree(pointer); });
  return [owner](const void* from, std::size_t bytes) {
    check(cudaMemcpy(owner.get(), from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  };
}
