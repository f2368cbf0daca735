// Decides which ranks hang, and describes them, from the latest reports of all ranks. Pure
// arithmetic, without clocks and sockets.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ranks/heartbeat.hpp"

namespace shardstream::watchdog {

/// One rank as another rank knows it.
struct RankState {
  int rank = 0;
  std::string host;
  long pid = 0;
  ranks::Pulse pulse;  ///< its latest report
  double silent = 0;   ///< seconds since its latest report
  double still = 0;    ///< seconds since its latest progress
};

struct Diagnosis {
  std::string sentence;
  std::vector<int> silent;  ///< the ranks at fault that can no longer be asked to end
};

/// Returns nothing unless all ranks have been without progress for `timeout` seconds. The ranks at
/// fault are those that have been silent for several reporting intervals of `interval` seconds. If
/// there are none, they are those that do not wait for other ranks; if all wait, all ranks.
std::optional<Diagnosis> diagnose_hang(std::span<const RankState> ranks, double timeout,
                                       double interval);

/// The message for a rank whose process has ended without announcing its end.
std::string lost_rank_message(const RankState& rank);

}  // namespace shardstream::watchdog
