// The workload `model`: a pseudo-application whose times follow a scaling law, so that scaling
// studies can be tested with a known result.
#pragma once

#include "workloads/workload.hpp"

namespace shardstream::workloads {

Workload model_workload();

}  // namespace shardstream::workloads
