// The report of `model`: predicted and measured times, and the check whether every rank has spent
// its requested times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/model/law.hpp"
#include "workloads/model/spinner.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads::model {

/// The sums over the timed repetitions of one rank, in nanoseconds.
struct RankReport {
  std::int64_t counted = 0;  ///< requested work
  Spent spent = {};          ///< all parts, including the overhead
};

/// A repetition in which the devices' counters differ from the requested work of all ranks.
struct WrongSum {
  std::uint64_t repetition;
  std::int64_t counted, asked;
};

/// A sentence that describes why the result is wrong; empty if it is correct.
std::string fault(const std::vector<RankReport>& ranks, const std::optional<WrongSum>& wrong);

/// Fills in tables, metrics, the counted work and the verdict. `outcome` must have its samples.
void report(const Law& law, const std::vector<RankReport>& ranks,
            const std::optional<WrongSum>& wrong, Outcome& outcome);

}  // namespace shardstream::workloads::model
