#include "gpu_copy.hpp"

Copy copy_to_gpu(std::size_t /*room*/) {
  return {};
}
