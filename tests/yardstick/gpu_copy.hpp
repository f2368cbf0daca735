// Plain copies of pageable memory to a GPU, in builds that have CUDA.
#pragma once

#include <cstddef>
#include <functional>

/// Copies `bytes` bytes, at most as many as there is room for, and returns when that is done.
using Copy = std::function<void(const void* from, std::size_t bytes)>;

/// Copies by cudaMemcpy to the first GPU, where it makes room for `room` bytes; an empty function
/// in a build without CUDA. Throws std::runtime_error, as the copies do.
Copy copy_to_gpu(std::size_t room);
