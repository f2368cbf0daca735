// Centred and scaled variables: sums over the samples that are multiplied, and what a tile of their
// products becomes by them. Values are (x - shift) * scale, rounded to the precision, for a shift
// near the mean and a scale that is a power of two (canonicalize_kernel()); what the shift is off
// the mean is subtracted from the products. Nothing here waits or synchronises; memory must live
// until the work is done.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/gemm/precision.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::gemm {

/// Samples whose sum is formed by itself, on both backends.
inline constexpr std::uint64_t samples_a_sum = 1024;

/// sums[v] = (or +=, unless `first`) the sum of variable v's elements in a panel, and squares[v]
/// that of their squares: in doubles, in an order that depends on nothing but the depth and the
/// backend, and so is the same in A's panel and in B's. If an element is not finite, neither is its
/// square's sum.
struct VariableSumsArgs {
  const void* panel;
  Precision precision;
  bool by_row;  ///< whether a variable is a row of the panel (of A), else a column (of B)
  std::uint64_t variables, depth;
  std::uint64_t ld;  ///< elements from one row to the next
  double* sums;
  double* squares;
  /// For a GPU: ceil(depth / samples_a_sum) * 2 * variables doubles.
  double* scratch;
  bool first;
};
Kernel<VariableSumsArgs> variable_sums_kernel();

/// Joins the sums of all segments of K, which several ranks may have (layers), in their order, and
/// makes of them what tiles are finished with.
struct SettleArgs {
  /// The sums of the first variable, like all pointers here. Pitches in doubles: `squares_apart`
  /// from a segment's sums to its squares, `segment_apart` to the next segment, `layer_apart` to
  /// the next layer.
  const double* parts;
  std::uint64_t layers, layer_apart, segments, segment_apart, squares_apart;
  std::uint64_t variables;
  double samples;
  bool center;  ///< whether the mean is subtracted
  bool scale;   ///< whether variables are divided by their deviation
  Precision precision;
  const double* scales;  ///< powers of two that the values were multiplied by
  double* sums;
  double* squares;
  /// An element of C is its product, corrected, times the factors of its row and its column.
  double* factors;
  std::uint64_t* unsettled;  ///< += variables that are not is_settled(); null: not counted
};
Kernel<SettleArgs> settle_kernel();

/// A tile of products becomes a tile of C, in doubles, rounded once:
/// (c - row_sum * column_sum / samples) * alpha * row_factor * column_factor. If `correlates`, what
/// rounding has taken from correlations is given back: finite ones come to lie from -1 to 1, and on
/// the diagonal of all of C what is above 0 is 1.
struct CovarianceArgs {
  void* tile;  ///< of accumulator_type(precision); not of int8
  Precision precision;
  std::uint64_t rows, columns;           ///< padding is left as it is
  std::uint64_t ld;                      ///< elements
  const double *row_sums, *column_sums;  ///< null: nothing is subtracted
  const double *row_factors, *column_factors;
  double samples, alpha;
  bool correlates;
  bool diagonal;  ///< whether the tile's diagonal is on C's
  /// TileVerdict::detection_threshold, which becomes one of C but for alpha: times the largest
  /// factors of a row and of a column.
  double* threshold;
};
Kernel<CovarianceArgs> covariance_kernel();

/// Of `samples` values with these sums; 0 if rounding has left less than that.
constexpr double squares_about_mean(double sum, double squares, double samples) {
  const double about = squares - sum * (sum / samples);
  return about < 0 ? 0 : about;
}

/// The deviation after shift and scale, as a power of two. Elements of fp16 have room for
/// 2^22 times that, and 2^-18 of it is still a normal number.
constexpr int usual_exponent(Precision precision) {
  return precision == Precision::fp16 ? -6 : 0;
}

/// Whether values with these sums had a suitable shift and scale, or no others would help: the mean
/// is at most four deviations away from the shift, and the deviation is one whose square and
/// rounding lose nothing. Correcting a mean r deviations away takes a share 1 + r^2 of the
/// product's accuracy.
constexpr bool is_settled(Precision precision, double sum, double squares, double samples,
                          bool center) {
  if (!(sum - sum == 0 && squares - squares == 0) || squares == 0) return true;
  const double about = center ? squares_about_mean(sum, squares, samples) : squares;
  if (center && sum * sum > 16 * samples * about) return false;
  const double variance = about / samples;
  const double least = precision == Precision::fp16   ? 0x1p-24
                       : precision == Precision::fp64 ? 0x1p-600
                                                      : 0x1p-60;
  const double most = precision == Precision::fp16   ? 0x1p16
                      : precision == Precision::fp64 ? 0x1p600
                                                     : 0x1p60;
  return least <= variance && variance <= most;
}

namespace detail {

/// Settles variable v and returns is_settled(). `root` is the square root.
template <class Root>
constexpr bool settle(const SettleArgs& args, std::uint64_t v, Root root) {
  double sum = 0, squares = 0;
  for (std::uint64_t layer = 0; layer < args.layers; ++layer) {
    for (std::uint64_t segment = 0; segment < args.segments; ++segment) {
      const double* const part =
          args.parts + layer * args.layer_apart + segment * args.segment_apart + v;
      sum += part[0];
      squares += part[args.squares_apart];
    }
  }
  args.sums[v] = sum;
  args.squares[v] = squares;
  const double about = args.center ? squares_about_mean(sum, squares, args.samples) : squares;
  double factor = args.scale ? (about > 0 ? 1 / root(about) : 0) : 1 / args.scales[v];
  const bool finite = sum - sum == 0 && squares - squares == 0;
  if (!finite) factor = std::numeric_limits<double>::quiet_NaN();
  args.factors[v] = factor;
  return is_settled(args.precision, sum, squares, args.samples, args.center);
}

}  // namespace detail

}  // namespace shardstream::gemm
