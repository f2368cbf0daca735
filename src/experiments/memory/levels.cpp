#include "experiments/memory/levels.hpp"

namespace shardstream::experiments::memory {

std::vector<Level> levels_of(const std::vector<double>& times) {
  constexpr double alike = 1.12;
  std::vector<Level> levels;
  for (std::size_t i = 0; i < times.size();) {
    std::size_t end = i + 1;
    while (end < times.size() && times[end] < alike * times[end - 1]) ++end;
    if (end - i > 1) levels.push_back({i, end});
    i = end;
  }
  return levels;
}

}  // namespace shardstream::experiments::memory
