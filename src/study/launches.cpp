#include "study/launches.hpp"

#include <fmt/format.h>

#include <cmath>

namespace shardstream::study {
namespace {

bool usable(double value) {
  return std::isfinite(value) && value > 0;
}

}  // namespace

std::optional<std::string> why_invalid(const Launch& launch) {
  if (launch.ranks < 1) return fmt::format("{} ranks: at least 1 is needed", launch.ranks);
  if (!usable(launch.seconds)) {
    return fmt::format("a time of {} s at {} ranks: a time is positive and finite", launch.seconds,
                       launch.ranks);
  }
  if (!usable(launch.work)) {
    return fmt::format("a work of {} at {} ranks: counted work is positive and finite", launch.work,
                       launch.ranks);
  }
  return {};
}

}  // namespace shardstream::study
