// The parts of the experiment runtime-compile that need NVRTC, but no GPU.
#pragma once

#include <string>

#include "core/table.hpp"
#include "experiments/bench.hpp"

namespace shardstream::experiments::machine {

/// The option runtime-compile.map, which NVRTC can compile for `capability`, 90 for 9.0. Throws
/// UsageError with NVRTC's first error otherwise.
std::string checked_expression(const Bench& bench, int capability);

/// Measures how long compilers take. Throws NotAvailable without NVRTC, and UsageError for a wrong
/// expression.
Table compile_without_gpu(Bench& bench);

}  // namespace shardstream::experiments::machine
