// The launchers of reduce.cu: each enqueues its kernel and does not wait.
#pragma once

#include "kernels/reduce/reduce.hpp"

namespace shardstream::reduce::cuda {

template <class T>
void leaves(const LeavesArgs<T>& args, CudaStream stream);
template <class T>
void fold(const FoldArgs<T>& args, CudaStream stream);
template <class T>
void pick(const PickArgs<T>& args, CudaStream stream);

}  // namespace shardstream::reduce::cuda
