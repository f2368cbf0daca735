// The launchers of reduce.cu: each enqueues its kernels and does not wait.
#pragma once

#include "kernels/reduce/reduce.hpp"

namespace shardstream::reduce::cuda {

template <class T>
void leaves(const LeavesArgs<T>& args, CudaStream stream);
template <class T>
void join(const JoinArgs<T>& args, CudaStream stream);

}  // namespace shardstream::reduce::cuda
