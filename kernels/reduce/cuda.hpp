// The launcher of reduce.cu: it enqueues its kernel and does not wait.
#pragma once

#include "kernels/reduce/reduce.hpp"

namespace shardstream::reduce::cuda {

template <class T>
void reduce(const ReduceArgs<T>& args, CudaStream stream);

}  // namespace shardstream::reduce::cuda
