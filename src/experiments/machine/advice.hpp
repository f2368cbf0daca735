// Advice for a host whose ranks use their links at the same time, from measured rates.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace shardstream::experiments::machine {

/// The links of a number of ranks per host that are busy at the same time.
struct BusyLinks {
  int ranks;     ///< per host
  double total;  ///< GB/s of all ranks of a host together
  /// The rate of the most and of the least disturbed rank, over its rate alone.
  double min_share, max_share;
};

/// Sentences that say what these rates mean for a user. `traffic` names it: "uploads". The elements
/// are in ascending order of ranks, and there is at least one.
std::string advice_on(std::string_view traffic, std::span<const BusyLinks> links);

}  // namespace shardstream::experiments::machine
