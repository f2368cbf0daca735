// The launchers of multiply_add.cu: each enqueues its kernel and does not wait.
#pragma once

#include "kernels/math/multiply_add.hpp"

namespace shardstream::math::cuda {

template <class T>
void multiply_add(const MultiplyAddArgs<T>& args, CudaStream stream);

}  // namespace shardstream::math::cuda
