// A run of a workload that streams one source, from the ceilings to the outcome.
#pragma once

#include <memory>

#include "io/source/source.hpp"
#include "runtime/runtime.hpp"
#include "workloads/stream/computation.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads::stream {

/// See Task::run(). Collective.
Outcome run(runtime::Runtime& runtime, io::Source& source,
            std::unique_ptr<Computation> computation);

}  // namespace shardstream::workloads::stream
