// The expected time of copies that overlap with a kernel (CUDA C++ Best Practices Guide, section
// Asynchronous and Overlapping Transfers with Computation).
#pragma once

#include <algorithm>

namespace shardstream::experiments::link {

enum class Ways { one, two };  ///< upload and kernel; then a download as well

/// Seconds of each stage alone, of all data at once.
struct Stages {
  double up, down, both, kernel;
};

/// The longest stage: no number of parts takes less.
constexpr double bound(const Stages& t, Ways ways) {
  return std::max(ways == Ways::one ? t.up : t.both, t.kernel);
}

/// The expected seconds of `parts` parts. One part passes all stages alone; while it does, or
/// after that, the longest stage handles the others. With one way this is t_T + t_E/n or
/// t_E + t_T/n.
constexpr double model(const Stages& t, Ways ways, unsigned parts) {
  const double alone = t.up + t.kernel + (ways == Ways::two ? t.down : 0);
  return (alone + (parts - 1) * bound(t, ways)) / parts;
}

}  // namespace shardstream::experiments::link
