// What `model` reports: the law's prediction beside the measured time, and whether the ranks have
// spent what they were asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/model/law.hpp"
#include "workloads/model/spinner.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads::model {

/// One rank's timed repetitions together, in nanoseconds.
struct RankReport {
  std::int64_t counted = 0;  ///< work that it was asked for
  Spent spent = {};          ///< all parts, the overhead too
};

/// A repetition in which the devices' counters disagreed with what was asked of all ranks.
struct WrongSum {
  std::uint64_t repetition;
  std::int64_t counted, asked;
};

/// Why the result is wrong, in a sentence; empty if it is right.
std::string fault(const std::vector<RankReport>& ranks, const std::optional<WrongSum>& wrong);

/// Fills tables, lines, the counted work and the verdict; `outcome` has its samples.
void report(const Law& law, const std::vector<RankReport>& ranks,
            const std::optional<WrongSum>& wrong, Outcome& outcome);

}  // namespace shardstream::workloads::model
