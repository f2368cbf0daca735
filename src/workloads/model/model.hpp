// The workload `model`: a pseudo-application that spends its time as a law says, so that scaling
// studies can be proved against a known answer.
#pragma once

#include "workloads/workload.hpp"

namespace shardstream::workloads {

Workload model_workload();

}  // namespace shardstream::workloads
