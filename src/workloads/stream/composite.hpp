// Several computations on the same elements, which read them once.
#pragma once

#include <memory>
#include <vector>

#include "workloads/stream/computation.hpp"

namespace shardstream::workloads::stream {

/// A computation that makes all of `parts`, at least one. A pass goes to the parts that have asked
/// for it. The units of all parts are multiples of one another. Results follow in the order of the
/// parts; rows of tables with the same name become one table.
std::unique_ptr<Computation> composite(std::vector<std::unique_ptr<Computation>> parts);

}  // namespace shardstream::workloads::stream
