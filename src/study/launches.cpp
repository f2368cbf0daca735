#include "study/launches.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/text.hpp"

namespace shardstream::study {
namespace {

bool usable(double value) {
  return std::isfinite(value) && value > 0;
}

}  // namespace

std::optional<std::string> why_invalid(const MeasuredLaunch& launch) {
  if (launch.ranks < 1) return fmt::format("{} ranks: at least 1 is needed", launch.ranks);
  if (!usable(launch.seconds)) {
    return fmt::format("a time of {} s on {}: a time is positive and finite", launch.seconds,
                       counted(launch.ranks, "rank"));
  }
  if (!usable(launch.work)) {
    return fmt::format("a work of {} on {}: counted work is positive and finite", launch.work,
                       counted(launch.ranks, "rank"));
  }
  return {};
}

}  // namespace shardstream::study
