#include "io/source/ladder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>

#include "io/source/coordinate_scale.hpp"

namespace shardstream::io {
namespace {

/// Beyond, doubles of angles lose the digits that count.
constexpr double max_angle = 1e6;
constexpr double turn = 360, infinity = std::numeric_limits<double>::infinity();

/// A number that turns may have given rounding errors.
std::string text_of_angle(double angle) {
  return std::isinf(angle) ? "" : fmt::format("{:.10g}", angle);
}

}  // namespace

Ladder::Ladder(const Coordinates& coordinates)
    : coordinates_(coordinates),
      descends_(coordinates.values.size() > 1 &&
                coordinates.values.back() < coordinates.values.front()),
      is_circle_(are_longitudes(coordinates.name, coordinates.attributes)) {}

std::optional<std::size_t> Ladder::first_disorder() const {
  const std::vector<double>& values = coordinates_.values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i]) ||
        (i > 0 && !(descends_ ? values[i] < values[i - 1] : values[i] > values[i - 1]))) {
      return i;
    }
  }
  return std::nullopt;
}

double Ladder::number(double value, std::size_t position) const {
  const bool rounds =
      coordinates_.is_f32(position) && std::abs(value) <= std::numeric_limits<float>::max();
  return rounds ? static_cast<double>(static_cast<float>(value)) : value;
}

std::pair<std::size_t, std::size_t> Ladder::between(double low, double high) const {
  const auto all = std::views::iota(std::size_t{0}, coordinates_.values.size());
  const auto position = [&](auto&& is_before) {
    return static_cast<std::size_t>(std::ranges::partition_point(all, is_before) - all.begin());
  };
  const auto is_below = [&](std::size_t i) { return coordinates_.values[i] < number(low, i); };
  const auto is_above = [&](std::size_t i) { return coordinates_.values[i] > number(high, i); };
  if (descends_) {
    return {position(is_above), position([&](std::size_t i) { return !is_below(i); })};
  }
  return {position(is_below), position([&](std::size_t i) { return !is_above(i); })};
}

bool Ladder::is_beyond(double value) const {
  return number(value, lowest()) < coordinates_.values[lowest()] ||
         number(value, highest()) > coordinates_.values[highest()];
}

std::string Ladder::neighbours(double value) const {
  const std::size_t after = between(value, value).first;
  if (after == 0) return text_of(0);
  if (after == coordinates_.values.size()) return text_of(after - 1);
  return fmt::format("{} and {}", text_of(after - 1), text_of(after));
}

std::string Ladder::extremes() const {
  return fmt::format("coordinates: {} to {}", text_of(lowest()), text_of(highest()));
}

std::string Ladder::text_of(std::size_t position) const {
  const double value = coordinates_.values[position];
  return coordinates_.is_f32(position) ? fmt::format("{}", static_cast<float>(value))
                                       : fmt::format("{}", value);
}

std::string Ladder::text_of(const Interval& interval) const {
  return text_of_angle(interval.low) + ':' + text_of_angle(interval.high);
}

std::size_t Ladder::count_between(const Interval& range) const {
  const auto [first, end] = between(range.low, range.high);
  return std::max(first, end) - first;
}

std::string Ladder::turned(double value) const {
  const double turns = std::floor((value - coordinates_.values[lowest()]) / turn);
  const double same = value - turns * turn;
  return count_between({same, same}) > 0 ? text_of_angle(same) : "";
}

std::vector<Interval> Ladder::parts_around(Interval range) const {
  const double west = coordinates_.values[lowest()], east = coordinates_.values[highest()];
  if (std::isinf(range.low)) range.low = west;
  if (std::isinf(range.high)) range.high = east;
  if (std::max(std::abs(range.low), std::abs(range.high)) > max_angle) return {};
  const bool crosses = range.low > range.high;
  if (crosses) range.high += std::ceil((range.low - range.high) / turn) * turn;
  const std::size_t selected = count_between(range);
  if (!crosses && selected == coordinates_.values.size()) return {};
  const double width = range.high - range.low;
  if (width >= turn) return {{-infinity, infinity}};
  const double start = range.low - std::floor((range.low - west) / turn) * turn;
  const double stop = start + width;
  // 10:360 on the circle 0, 10, ..., 350 ends where the circle does.
  if (!crosses && start == range.low && stop == west + turn) return {};
  std::vector<Interval> parts = {{start, stop}};
  if (stop >= west + turn) parts = {{start, infinity}, {-infinity, stop - turn}};
  std::size_t meant = 0;
  for (const Interval& part : parts) meant += count_between(part);
  if (!crosses && meant == selected) return {};
  std::erase_if(parts, [&](const Interval& part) { return count_between(part) == 0; });
  return parts;
}

}  // namespace shardstream::io
