// Axes of figures: their extents, and round numbers on them whose texts have room.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardstream::report::page {

enum class Spacing { linear, logarithmic };

/// The minimum and maximum of an axis.
struct Extent {
  double lo = 0, hi = 0;
};
/// A logarithmic axis extends at least by this factor: a flat curve must not fill the picture.
inline constexpr double min_log_ratio = 1.5;
/// The extent of the positive values, with a margin.
Extent log_extent(const std::vector<double>& values);

/// At most about six round numbers on a logarithmic axis, as gnuplot's list of tics.
std::string log_tics(const Extent& extent);
/// The same for speed-ups: powers of two, with numbers between them on short axes.
std::string doubling_tics(const Extent& extent);

enum class Direction { across, up };

/// An axis of a known length.
struct Axis {
  Spacing spacing = Spacing::linear;
  Direction direction = Direction::across;
  Extent extent;
  double pixels = 0;
};
/// At most eight round numbers, whose texts do not touch, as gnuplot's list of tics.
std::string fitting_tics(const Axis& axis);
/// The same, or the `values` if these are at most six short numbers below 10 000 and have room.
std::string fitting_tics(const Axis& axis, std::vector<double> values);

/// The width in pixels of a line of text in the figures' font size. Browsers use different fonts;
/// this is for a wide one.
double text_width(std::string_view text);

/// At most four lines of at most `pixels`, broken after commas, or else at blanks, or else in
/// words, preferably after a punctuation mark. An ellipsis stands for the rest.
std::vector<std::string> lines_of(std::string_view text, double pixels);

/// "512", "4.19M", and with a unit "512 B", "4.19 MB": three digits, from 10 000 on with a prefix
/// of the SI.
std::string amount_text(double value, std::string_view unit);

}  // namespace shardstream::report::page
