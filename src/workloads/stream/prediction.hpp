// The dry run of a workload that streams one source: its time, its bound and its memory.
#pragma once

#include "core/options.hpp"
#include "io/source/source.hpp"
#include "measure/machine.hpp"
#include "workloads/stream/computation.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads::stream {

/// See Task::predict(). The host memory of GPU nodes is unknown and not checked.
Prediction predict(const Options& options, const io::Source& source, const Computation& computation,
                   measure::Machine& machine);

}  // namespace shardstream::workloads::stream
