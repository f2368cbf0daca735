// The launcher of spin.cu: enqueues the kernel and does not wait.
#pragma once

#include "workloads/model/spin.hpp"

namespace shardstream::workloads::model::cuda {

void spin(const SpinArgs& args, CudaStream stream);

}  // namespace shardstream::workloads::model::cuda
