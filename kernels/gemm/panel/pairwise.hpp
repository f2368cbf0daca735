// Makes a tile of C from the moments of its pairs of variables (moments.hpp). Nothing here waits or
// synchronises; memory must live until the work is done.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/gemm/check.hpp"
#include "kernels/gemm/moments.hpp"
#include "kernels/gemm/precision.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::gemm {

/// The divisor of the sum of products of a pair with n samples.
enum class Divisor : std::uint8_t { one, n, n_minus_1 };

/// Replaces the products of a tile by elements of C, and the counts by integers with as many bytes
/// (i32 for floats, i64 for doubles). With n = N_ij, all in doubles, rounded once:
///
///   C_ij = (P_ij - S_ij S_ji / n) f_i f_j / divisor(n)
///
/// or, with squares, P_ij - S_ij S_ji / n divided by the roots of V_ij = Q_ij - S_ij^2 / n and of
/// V_ji, limited to -1 to 1, and 1 on the diagonal. Without sums, S is 0. C_ij is NaN if n is 0, if
/// the divisor is 0, and if V_ij or V_ji is 0. A V that rounding errors of Q and S may have caused
/// counts as 0. The rows and columns of padding do not change.
struct PairwiseArgs {
  void* products;  ///< the accumulators of the tile: of accumulator_type(precision), like all sums
  void* counts;
  const void *row_sums, *column_sums;        ///< S_ij and S_ji; null: means are not subtracted
  const void *row_squares, *column_squares;  ///< Q_ij and Q_ji; null: deviations do not divide
  Precision precision;
  std::uint64_t rows, columns;
  std::uint64_t ld;  ///< leading dimension of all accumulators, in elements
  std::uint64_t k;   ///< number of all samples
  /// f, one for each row and each column; null for 1. Not used with squares.
  const double *row_factors, *column_factors;
  Divisor divisor;  ///< not used with squares
  bool diagonal;    ///< the tile's diagonal is on C's
  /// Raised to the maximum change of an element of C if a product, a sum or a square changes by 1.
  double* sensitivity;
  /// If one of its weights is 0, C_ij is 0. Null: all elements count.
  const double *row_weights = nullptr, *column_weights = nullptr;
};
Kernel<PairwiseArgs> pairwise_kernel();

namespace detail {

/// Whether the variables of a pair have weights above 0.
constexpr bool has_weight(const PairwiseArgs& args, std::uint64_t r, std::uint64_t c) {
  return args.row_weights == nullptr || (args.row_weights[r] != 0 && args.column_weights[c] != 0);
}

/// The moments of one pair. Those that are not needed are 0.
struct PairSums {
  double products, count, row_sum = 0, column_sum = 0, row_squares = 0, column_squares = 0;
};

/// An element of C.
struct PairElement {
  double value;        ///< NaN if it is not defined
  double sensitivity;  ///< PairwiseArgs::sensitivity of this element
};

/// How all elements of C are made from sums.
struct PairRule {
  bool centers, scales;
  Divisor divisor;
  double unit;       ///< of the rounding of sums
  double additions;  ///< the maximum number of additions one after another: of a call, and of calls
};

inline PairRule rule_of(const PairwiseArgs& args) {
  return {.centers = args.row_sums != nullptr,
          .scales = args.row_squares != nullptr,
          .divisor = args.divisor,
          .unit = traits_of(args.precision).rounding.unit,
          .additions = additions_of_sum(args.precision, args.k)};
}

/// The largest part of Q that rounding errors of Q and S may be. By the model of the check
/// (../CHECK.md), random errors have deviations of u Q sqrt(n) / 3 and, for S^2 / n, twice as
/// much; eight of them are below 6 u Q sqrt(n). If the values are equal, m additions can all lose
/// u/2 of the partial sum, which makes up to u Q m / 2, and twice as much for S^2 / n. The squares
/// themselves were rounded, too.
template <class Root>
constexpr double noise(const PairRule& rule, double count, Root root) {
  const double additions = count < rule.additions ? count : rule.additions;
  return rule.unit * (2 + 6 * root(count) + 1.5 * additions);
}

/// `factor`: f_i f_j. `root` computes a square root.
template <class Root>
constexpr PairElement pair_element(const PairSums& of, const PairRule& rule, double factor,
                                   Root root) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const double n = of.count;
  if (!(n > 0)) return {nan, 0};
  const double row_mean = of.row_sum / n, column_mean = of.column_sum / n;
  const double product = of.products - of.row_sum * column_mean;
  const double row_size = row_mean < 0 ? -row_mean : row_mean;
  const double means = row_size + (column_mean < 0 ? -column_mean : column_mean);
  const double reach = means > 1 ? means : 1;  // of an error of a sum
  if (!rule.scales) {
    const double divisor = rule.divisor == Divisor::one ? 1
                           : rule.divisor == Divisor::n ? n
                                                        : n - 1;
    if (divisor == 0) return {nan, 0};
    const double share = factor / divisor;
    return {product * share, share * reach};
  }
  if (rule.centers && n == 1) return {nan, 0};
  const double row_about = of.row_squares - of.row_sum * row_mean;
  const double column_about = of.column_squares - of.column_sum * column_mean;
  const double smallest_share = noise(rule, n, root);
  if (row_about <= smallest_share * of.row_squares ||
      column_about <= smallest_share * of.column_squares) {
    return {nan, 0};
  }
  const double smaller = row_about < column_about ? row_about : column_about;
  return {product / (root(row_about) * root(column_about)), reach / smaller};
}

}  // namespace detail

}  // namespace shardstream::gemm
