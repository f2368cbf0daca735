// A run of a workload that streams one source, from the ceilings to the outcome, and its dry run:
// time, bound and memory.
#pragma once

#include <memory>

#include "core/options.hpp"
#include "io/source/source.hpp"
#include "measure/machine.hpp"
#include "runtime/runtime.hpp"
#include "workloads/stream/computation.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads::stream {

/// See Task::run(). Collective.
Outcome run(runtime::Runtime& runtime, io::Source& source,
            std::unique_ptr<Computation> computation);

/// See Task::predict(). The host memory of GPU nodes is unknown and not checked.
Prediction predict(const Options& options, const io::Source& source, const Computation& computation,
                   measure::Machine& machine);

}  // namespace shardstream::workloads::stream
