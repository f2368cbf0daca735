// A run of a matrix product, from the measurement of the machine to the outcome.
#pragma once

#include <string>

#include "runtime/runtime.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads::product {

/// Computes C. `name` is the name of the workload. Collective. Throws AgreedError if the machine
/// does not allow the options, Error if a rank's data cannot be read or written.
Outcome run(runtime::Runtime& runtime, const Operands& operands, const std::string& name,
            const RunFiles& files);

}  // namespace shardstream::workloads::product
