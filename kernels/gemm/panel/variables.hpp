// Centred, scaled and weighted variables, for covariances and correlations. Panels contain
// (x - shift) * scale * factor, rounded to the precision, with a shift near the mean, a scale that
// is a power of two, and a factor that is the root of the sample's weight (canonicalize_kernel()).
// The kernels here sum the panels' values over the samples,
// and correct a tile of products for the difference between shift and mean. Nothing here waits or
// synchronises; memory must live until the work is done.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/gemm/moments.hpp"
#include "kernels/gemm/precision.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::gemm {

/// Samples are summed in groups of this size, on both backends.
inline constexpr std::uint64_t samples_a_sum = 1024;

/// Sums the elements of each variable v in a panel into sums[v], each multiplied by the factor of
/// its sample, and their squares into squares[v]. So sums are weighted as products are. If `first`
/// is set, the sums replace the earlier values; otherwise they are added to them. Sums are doubles.
/// Their order depends only on the depth and the backend, so it is the same in A's panel and in
/// B's. If an element is NaN, the sum of squares is NaN; else, if one is infinite, the sum of
/// squares is infinite.
struct VariableSumsArgs {
  const void* panel;
  Precision precision;
  Side side;  ///< a variable is a row of A's panel, and a column of B's
  std::uint64_t variables, depth;
  std::uint64_t ld;  ///< leading dimension of the panel, in elements
  double* sums;
  double* squares;
  /// Only for a GPU: ceil(depth / samples_a_sum) * 2 * variables doubles.
  double* scratch;
  bool first;
  const double* factors = nullptr;  ///< of the panel's samples, or null: all are 1
};
Kernel<VariableSumsArgs> variable_sums_kernel();

/// Adds the sums of all segments of K in a fixed order, and computes the factors of the covariance
/// from them. Several ranks (layers) may have segments.
struct SettleArgs {
  /// The sums of segments. Like all pointers here, it points to the value of the first variable.
  /// The distances are numbers of doubles: `squares_offset` from a segment's sums to its squares,
  /// `segment_pitch` from one segment to the next, and `layer_pitch` from one layer to the next.
  const double* parts;
  std::uint64_t layers, layer_pitch, segments, segment_pitch, squares_offset;
  std::uint64_t variables;
  double samples;  ///< the sum of the squares of their factors
  bool center;     ///< the mean is subtracted
  bool scale;      ///< variables are divided by their standard deviation
  Precision precision;
  /// Powers of two that the values were multiplied by, or 0 for a variable that is left out. It has
  /// the factor NaN.
  const double* scales;
  double* sums;
  double* squares;
  /// An element of C is its corrected product times the factors of its row and its column.
  double* factors;
  /// Incremented by the number of variables that need another shift or scale: those that are not
  /// is_settled(), and those whose squares have the sum 0 although lost[v] is 1. Null: not counted.
  std::uint64_t* unsettled;
  std::uint8_t* lost = nullptr;  ///< CanonicalizeArgs::lost
  /// The factor of each variable is multiplied by its weight; a weight of 0 makes any factor 0.
  /// Null: all are 1.
  const double* weights = nullptr;
  /// With several planes, `parts` has a sum for each row or column of the panel, and the sum of a
  /// variable's mask replaces `samples`. It is stored in counts[v], unless `counts` is null.
  Planes planes = {};
  double* counts = nullptr;
};
Kernel<SettleArgs> settle_kernel();

/// Turns a tile of products into a tile of C:
/// (c - row_sum * column_sum / samples) * alpha * row_factor * column_factor, in doubles, rounded
/// once. If `correlates`, it also removes the effect of rounding on correlations: finite values are
/// limited to -1 to 1, and positive values on C's diagonal become 1.
struct CovarianceArgs {
  void* tile;  ///< of accumulator_type(precision); int8 throws std::logic_error
  Precision precision;
  std::uint64_t rows, columns;           ///< the padding does not change
  std::uint64_t ld;                      ///< leading dimension of the tile, in elements
  const double *row_sums, *column_sums;  ///< null: nothing is subtracted
  const double *row_factors, *column_factors;
  double samples, alpha;  ///< `samples`: as in SettleArgs
  bool correlates;
  bool diagonal;  ///< the tile's diagonal is on C's
  /// TileVerdict::detection_threshold. It is multiplied by the maximum factors of a row and of a
  /// column, so that it holds for C, except for alpha.
  double* threshold;
  /// If one of its weights is 0, an element becomes 0, even if the data are not finite. Null: all
  /// elements count.
  const double *row_weights = nullptr, *column_weights = nullptr;
};
Kernel<CovarianceArgs> covariance_kernel();

/// The sum of squared deviations from the mean, for `samples` values with these sums. 0 if rounding
/// makes it negative.
constexpr double squares_about_mean(double sum, double squares, double samples) {
  const double about = squares - sum * (sum / samples);
  return about < 0 ? 0 : about;
}

/// Whether shift and scale were suitable for values with these sums, or no others would be better.
/// If the sum of squares is NaN, a value of the data is not finite, and no others are better. If it
/// is infinite, all values are finite, but shift and scale bring some of them beyond the range.
/// They are suitable if the mean is at most four standard deviations from the shift, and the
/// standard deviation is in the range in which its square and its rounding lose nothing. If the
/// mean is r deviations from the shift, the correction increases the error of the product by a
/// factor of 1 + r^2.
constexpr bool is_settled(const ElementRange& range, double sum, double squares, double samples,
                          bool center) {
  if (squares > std::numeric_limits<double>::max()) return false;
  if (sum != sum || squares != squares || squares == 0) return true;
  const double about = center ? squares_about_mean(sum, squares, samples) : squares;
  if (center && sum * sum > 16 * samples * about) return false;
  const double variance = about / samples;
  return range.min_variance <= variance && variance <= range.max_variance;
}

namespace detail {

/// Processes variable v, and returns whether it needs no other shift or scale. `lost`: whether
/// lost[v] is 1. `root` computes a square root.
template <class Root>
constexpr bool settle(const SettleArgs& args, const ElementRange& range, std::uint64_t v, bool lost,
                      Root root) {
  const bool has_mask = args.planes.count > 1;
  const std::uint64_t values = args.planes.place(v, Plane::values);
  const std::uint64_t mask = has_mask ? args.planes.place(v, Plane::mask) : values;
  double sum = 0, squares = 0, count = 0;
  for (std::uint64_t layer = 0; layer < args.layers; ++layer) {
    for (std::uint64_t segment = 0; segment < args.segments; ++segment) {
      const double* const part =
          args.parts + layer * args.layer_pitch + segment * args.segment_pitch;
      sum += part[values];
      squares += part[values + args.squares_offset];
      count += part[mask];
    }
  }
  const double samples = has_mask ? count : args.samples;
  args.sums[v] = sum;
  args.squares[v] = squares;
  if (args.counts != nullptr) args.counts[v] = samples;
  const double about = args.center ? squares_about_mean(sum, squares, samples) : squares;
  const double weight = args.weights != nullptr ? args.weights[v] : 1;
  double factor = args.scale ? (about > 0 ? 1 / root(about) : 0) : 1 / args.scales[v];
  factor *= weight;
  const bool finite = sum - sum == 0 && squares - squares == 0;
  if (!finite || args.scales[v] == 0) factor = std::numeric_limits<double>::quiet_NaN();
  args.factors[v] = weight == 0 ? 0 : factor;
  if (squares == 0 && lost) return false;
  return is_settled(range, sum, squares, samples, args.center);
}

}  // namespace detail

}  // namespace shardstream::gemm
