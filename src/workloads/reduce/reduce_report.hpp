// The common parts of the reports of `reduce`: the table of results, positions, and the error for
// values that are missing.
#pragma once

#include <cstdint>
#include <string>

#include "core/table.hpp"
#include "io/source/source.hpp"
#include "kernels/cells/number.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads {

/// The table of the results, which is created on first use.
Table& statistics_table(Outcome& outcome);

/// The coordinates of element `index`, such as "12,34"; empty for no_index.
std::string place(const io::Source& source, std::int64_t index);

/// Throws the Error for values that are missing or NaN if reduce.missing is error. `first` is the
/// index of the first one.
[[noreturn]] void reject(const io::Source& source, std::uint64_t missing, std::int64_t first);

}  // namespace shardstream::workloads
