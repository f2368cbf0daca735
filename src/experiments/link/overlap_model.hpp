// The expected time of copies that overlap with a kernel (CUDA C++ Best Practices Guide, section
// Asynchronous and Overlapping Transfers with Computation).
#pragma once

#include <algorithm>

namespace shardstream::experiments::link {

enum class Ways { one, two };  ///< upload and kernel; upload, kernel and download

/// Seconds of each stage for all data, without overlap. `both` is an upload beside a download.
struct Stages {
  double up, down, both, kernel;
};

/// The time of the longest stage, which no number of parts can beat.
constexpr double bound(const Stages& t, Ways ways) {
  return std::max(ways == Ways::one ? t.up : t.both, t.kernel);
}

/// The expected seconds if the data is split into `parts` parts. One part passes through all stages
/// alone; the longest stage bounds the others. For one way this is t_T + t_E/n or t_E + t_T/n.
constexpr double model(const Stages& t, Ways ways, unsigned parts) {
  const double alone = t.up + t.kernel + (ways == Ways::two ? t.down : 0);
  return (alone + (parts - 1) * bound(t, ways)) / parts;
}

}  // namespace shardstream::experiments::link
