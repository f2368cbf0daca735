// The coordinates of a dimension in the order of their values, in which selections look numbers up.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/description/dimension.hpp"

namespace shardstream::io {

/// Both ends are included; they may be infinite.
struct Interval {
  double low, high;
};

/// Coordinates that increase or decrease strictly. Numbers of the user are compared with each
/// coordinate in its type, so that 0.1 is the f32 nearest to it. `coordinates` outlive the ladder.
class Ladder {
 public:
  explicit Ladder(const Coordinates& coordinates);

  bool descends() const { return descends_; }
  /// Whether they are longitudes, so that x and x + 360 are the same place.
  bool is_circle() const { return is_circle_; }
  /// The first position whose coordinate is missing, or not beyond the one before it in the
  /// direction of the first and last. The other functions need that there is none.
  std::optional<std::size_t> first_disorder() const;

  /// The positions of the coordinates from `low` to `high`, both included: a contiguous range.
  std::pair<std::size_t, std::size_t> between(double low, double high) const;
  /// Whether a number is below or above all coordinates.
  bool is_beyond(double number) const;
  /// "5.25 and 5.5", the coordinates next to a number that is none.
  std::string neighbours(double number) const;
  /// "coordinates: -88 to 88"
  std::string extremes() const;
  std::string text_of(std::size_t position) const;

  /// The longitude that is `number` after turns of 360 degrees, as text; empty if there is none.
  std::string turned(double number) const;
  /// The ranges that select all longitudes between the ends of `range`, eastward, if some of them
  /// lie in it only after turns of 360 degrees: one or two. Otherwise none. If low > high, the
  /// range crosses the meridian at which the coordinates begin, and there are none only if it
  /// selects nothing.
  std::vector<Interval> parts_around(Interval range) const;
  /// "350:20", "350:"
  std::string text_of(const Interval& interval) const;

 private:
  double number(double value, std::size_t position) const;
  std::size_t lowest() const { return descends_ ? coordinates_.values.size() - 1 : 0; }
  std::size_t highest() const { return descends_ ? 0 : coordinates_.values.size() - 1; }
  std::size_t count_between(const Interval& range) const;

  const Coordinates& coordinates_;
  bool descends_, is_circle_;
};

}  // namespace shardstream::io
