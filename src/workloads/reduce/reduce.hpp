// The workload `reduce`: statistics of all elements in one pass, the same bits for any number of
// ranks, any sizes and any backend.
#pragma once

#include "workloads/workload.hpp"

namespace shardstream::workloads {

Workload reduce_workload();

}  // namespace shardstream::workloads
