// Who hangs, and what is said of it: from what the ranks have told, without clocks or sockets.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ranks/heartbeat.hpp"

namespace shardstream::watchdog {

/// One rank as another sees it.
struct RankState {
  int rank = 0;
  std::string host;
  long pid = 0;
  ranks::Pulse pulse;  ///< the last that it told
  double silent = 0;   ///< seconds since it told anything
  double still = 0;    ///< seconds since it was seen to move
};

struct Diagnosis {
  std::string sentence;
  std::vector<int> silent;  ///< those of the culprits that cannot be asked to end
};

/// Nothing until no rank has moved for `timeout` seconds. Then the culprits are the ranks that have
/// been silent for several of the `interval` seconds between two tellings; or else those that are
/// not waiting for others; or else all.
std::optional<Diagnosis> diagnose_hang(std::span<const RankState> ranks, double timeout,
                                       double interval);

/// Of a rank whose process is gone, and that has not said that it would go.
std::string lost_rank_message(const RankState& rank);

}  // namespace shardstream::watchdog
