// The workload `histogram`: numbers of elements in equal bins of a range.
#pragma once

#include "workloads/workload.hpp"

namespace shardstream::workloads {

Workload histogram_workload();

}  // namespace shardstream::workloads
