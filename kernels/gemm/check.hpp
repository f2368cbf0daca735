// Freivalds' check of a product (R. Freivalds, Probabilistic machines can use less running time,
// IFIP 1977): compares C x with A (B x) for a vector x of random signs, for each column tile J of C
// separately. The sums are formed while the product is computed:
//
//   Y[kk][J]  = sum over c in J of B[kk][c] x(c)     signed_sums, on the rank that uploads the rows
//   Z[i][J]  += sum over kk of A[i][kk] Y[kk][J]     add_products, for every block of K
//   R[i][J]   = sum over c in J of C[i][c] x(c)      check_rows, which compares R with Z
//
// For a narrow product (Tile), narrow_sums (narrow.hpp) replaces signed_sums and add_products.
// CHECK.md derives the bound for |R - Z|. Panels are canonical (panel.hpp) and sums are
// doubles. Every sum has a fixed order on each backend, without floating-point atomics. Nothing
// here waits or synchronises; memory must live until the work is done.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/data/generate.hpp"
#include "kernels/gemm/grid.hpp"
#include "kernels/gemm/precision.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::gemm {

/// Bit b of the word is set if column 64 * word + b has the sign -1.
constexpr std::uint64_t sign_word(std::uint64_t seed, std::uint64_t word) {
  return mix(stream_of(seed) + word * 0x9e3779b97f4a7c15u);
}

/// The sign of a column of C, +1 or -1; the same on every backend.
constexpr int sign_of(std::uint64_t seed, std::uint64_t column) {
  return ((sign_word(seed, column / 64) >> (column % 64)) & 1u) != 0 ? -1 : 1;
}

/// Computes Y for some rows of a panel of B, and the sums of squares that the bound needs. Both are
/// gathered together: y has 2 * tiles columns, first those of Y, then the sums over c in J of
/// B[kk][c]^2.
struct SignedSumsArgs {
  const void* panel;  ///< rows x (tiles * tile_n)
  Precision precision;
  std::uint64_t rows;
  std::uint64_t ld;  ///< leading dimension, in elements
  std::uint64_t tile_n, tiles;
  std::uint64_t seed;
  std::uint64_t first_column;  ///< the column of C that the panel's first column belongs to
  double* y;                   ///< dense rows x (2 * tiles)
};
Kernel<SignedSumsArgs> signed_sums_kernel();

/// Adds one block of K to Z, and to the sums of squares of A's rows and of B's column tiles. If
/// `first` is set, it overwrites them instead. A panel of few rows would leave most of a GPU idle.
/// So the depth can be divided into slices. They are summed at the same time, each into its own Z
/// and squares.
struct AddProductsArgs {
  const void* panel;  ///< of A, rows x depth
  Precision precision;
  std::uint64_t rows, depth;
  std::uint64_t ld;  ///< leading dimension, in elements
  const double* y;   ///< dense depth x (2 * tiles): SignedSumsArgs::y of all rows of the block
  std::uint64_t tiles;
  double* z;               ///< dense rows x tiles
  double* row_squares;     ///< rows
  double* column_squares;  ///< tiles
  bool first;
  std::uint64_t slices = 1;
  std::uint64_t slice_pitch = 0;  ///< doubles from z, or the squares, of a slice to the next slice
};
Kernel<AddProductsArgs> add_products_kernel();

/// The result of the check of one row of a tile.
struct RowVerdict {
  double ratio;  ///< |R - Z| / bound; NaN if the row can't be checked; or `overflows`
  double bound;
  double squares;  ///< sum of the squares of the row's elements, for the bound
};

/// RowVerdict::ratio of a row that can't be checked because C's type is too small for it: A and B
/// are finite, C is not, and sums of their products may exceed the largest number.
inline constexpr double overflows = -1;

struct TileVerdict {
  double worst;             ///< maximum of |R - Z| / bound over the rows; above 1 is a failure
  std::uint64_t worst_row;  ///< in the tile; the first of several equal ones
  std::uint64_t failures;   ///< number of rows
  /// Number of rows that can't be checked, because values of A or B or their squares are not
  /// finite or too small, or because C's type is too small for their products.
  std::uint64_t unchecked;
  std::uint64_t overflowed;  ///< unchecked rows for which C's type is too small
  /// Twice the maximum bound. An error of one element that is larger than this is detected in every
  /// checked row, as long as the row's rounding errors alone are within the bound.
  double detection_threshold;
};

/// Checks a tile of C before alpha and beta are applied. This takes two launches:
/// check_rows_kernel() fills row_verdicts, and verdict_kernel() combines them. Padding beyond rows
/// x columns is ignored.
struct CheckTileArgs {
  const void* tile;  ///< of accumulator_type(precision)
  Precision precision;
  std::uint64_t rows, columns;
  std::uint64_t ld;  ///< leading dimension, in elements
  std::uint64_t seed;
  std::uint64_t first_column;    ///< the column of C that the tile's first column is
  std::uint64_t k;               ///< number of products in a sum, without padding
  const double* z;               ///< address of Z for the tile's first row and its column tile
  std::uint64_t z_stride;        ///< elements from one row of Z to the next
  const double* row_squares;     ///< address of the value for the tile's first row
  const double* column_squares;  ///< address of the value for the tile's column tile
  RowVerdict* row_verdicts;      ///< scratch memory for `rows` verdicts
  TileVerdict* verdict;
  /// Whether the sums are exact in any precision, since they are counts. A deviation of 1 is wrong.
  bool counts = false;
  /// Whether one factor is a mask of zeros and ones. Partial sums may then drift far beyond the
  /// result, for example of a variable with a trend, and all errors may have the same sign.
  bool drifts = false;
  /// Whether the verdict is added to that on other elements of the tile, which have the same rows
  /// (moments.hpp). Counts do not change its threshold then.
  bool joins = false;
  unsigned moduli = 0;  ///< Tile::moduli
};
Kernel<CheckTileArgs> check_rows_kernel();
Kernel<CheckTileArgs> verdict_kernel();

/// The number of slices for add_products of an A with `rows` rows: a power of two up to 8, or up to
/// 128 for A of less than 512 rows, which fills a GPU only with many slices. For narrow_sums, whose
/// slices are the thread blocks, it is 256, two for each multiprocessor of a GPU.
constexpr std::uint64_t check_slices(const Tile& tile, std::uint64_t rows) {
  constexpr std::uint64_t enough_rows = 16384, enough_narrow_rows = 4096, usual = 8, max = 128;
  constexpr std::uint64_t of_narrow = 256;
  if (tile.is_narrow()) return of_narrow;
  std::uint64_t slices = 1;
  while (slices < usual && slices * rows < enough_rows) slices *= 2;
  while (slices < max && slices * rows < enough_narrow_rows) slices *= 2;
  return slices;
}

namespace detail {

/// The depth of a slice (the last slices may be shallower or empty): a multiple of the depth that a
/// GPU processes at a time.
constexpr std::uint64_t slice_depth(std::uint64_t depth, std::uint64_t slices) {
  constexpr std::uint64_t step = 32;
  return ((depth + slices - 1) / slices + step - 1) / step * step;
}

/// The model of the error R - Z (kernels/gemm/CHECK.md).
struct ErrorModel {
  double variance;
  double underflow;   ///< the maximum error from subnormal numbers
  bool may_overflow;  ///< whether a sum of products may exceed the largest number of C's type
};

/// The parameters of the error model that all rows of a product share.
struct ErrorParameters {
  double k;            ///< products in a sum
  double additions;    ///< that are rounded
  double unit;         ///< Rounding::unit; 0: sums are exact
  double steps;        ///< in which tensor cores add the products of a call; 0: they do not
  double terms;        ///< products of factors in a sum
  double split_depth;  ///< if elements are split, the depth of a call, else 0
  double drift;        ///< additions whose errors may have the same sign; 0: errors are random
  double smallest;     ///< positive number of C's type
  bool may_overflow;   ///< whether C's type is smaller than double
  double integers;     ///< residue_error(): of lines that are rounded to integers; 0: they are not
};

/// The maximum number of additions one after another in a sum of k products: those of a call, and
/// those of the calls. With residues a call has one, which rounds its exact sum.
inline double additions_of_sum(Precision precision, std::uint64_t k) {
  const auto terms = static_cast<double>(k);
  const auto block = static_cast<double>(tile_for(1, 1, k, precision, Backend::cuda).k);
  if (multiplies_residues(precision)) return 1 + 2 * terms / block;
  return std::min(terms, block + terms / block);
}

/// `exact`: whether sums are exact in any precision. `drifts` and `moduli` are those of
/// CheckTileArgs.
inline ErrorParameters error_parameters(Precision precision, std::uint64_t k, bool exact = false,
                                        bool drifts = false, unsigned moduli = 0) {
  const PrecisionTraits& row = traits_of(precision);
  const auto terms = static_cast<double>(k);
  const auto block = static_cast<double>(tile_for(1, 1, k, precision, Backend::cuda).k);
  const bool tensor_cores = row.rounding.products_a_step > 0;
  const double call_depth = std::min(terms, static_cast<double>(row.gpu.max_k));
  const bool wide = row.accumulator == ElementType::f64;
  return {.k = terms,
          .additions = moduli > 0 ? additions_of_sum(precision, k) : terms,
          .unit = exact ? 0 : row.rounding.unit,
          .steps = tensor_cores ? call_depth / row.rounding.products_a_step : 0,
          .terms = row.products * terms,
          .split_depth = row.products > 1 ? std::min(block, terms) : 0,
          .drift = drifts ? additions_of_sum(precision, k) : 0,
          .smallest = wide ? 0x1p-1074 : 0x1p-149,
          .may_overflow = !wide,
          .integers = moduli > 0 ? residue_error(moduli, static_cast<std::uint64_t>(block)) : 0};
}

/// The variance for fp32x3, including the parts that splitting leaves out. `c` and `max_square` are
/// those of error_model().
constexpr double split_variance(const ErrorParameters& of, double columns, double c,
                                double max_square, double row_squares, double column_squares) {
  const double k = of.k, depth = of.split_depth, calls = k / depth, steps = of.steps;
  const double t = 0x1p-23, u = 0x1p-24;
  const double in_calls = (c * depth / 9 + max_square / 6) / calls + c * steps * steps / 16;
  const double of_calls = c * calls / 9 + max_square / 6;
  const double left_out = 0x1p-42 * c + 0x1p-45 * max_square / k;
  const double too_small = 0x1p-274 / 3 * (column_squares + columns * row_squares);
  return t * t * in_calls + u * u * of_calls + left_out + too_small;
}

constexpr ErrorModel error_model(const ErrorParameters& of, double columns, double tile_squares,
                                 double row_squares, double column_squares) {
  if (of.unit == 0) return {0x1p-8, 0, false};  // exact: the bound is 1/2
  const double v = 0x1p-53, k = of.k;
  const double max_square = row_squares * column_squares;
  // Correct elements are no larger (Cauchy and Schwarz). A wrong one must not widen its own bound.
  const double c = of.drift == 0 && tile_squares < max_square ? tile_squares : max_square;
  const double steps = of.steps > of.drift ? of.steps : of.drift;
  const double bias = steps * steps / 16 * c;
  const double walk = of.additions / 9 * c + max_square / 6;
  const double integers = of.integers * of.integers * max_square;
  const double product =
      of.split_depth > 0 ? split_variance(of, columns, c, max_square, row_squares, column_squares)
                         : of.unit * of.unit * (walk + bias);
  const double signed_sum = columns / 6 * (c + max_square / k);
  // No sum is larger than |a| |b|. Half of the largest number leaves room for rounding. With fp64
  // max_square itself overflows long before the sums do, and the variance is not finite.
  constexpr double half = std::numeric_limits<float>::max() / 2.0;
  const bool may_overflow = of.may_overflow && max_square >= half * half;
  const double reference = v * v * (k / 9 * c + max_square / 6 + signed_sum);
  return {product + integers + reference, of.terms * columns * of.smallest, may_overflow};
}

/// Computes RowVerdict::ratio.
constexpr double ratio_of(double r, double z, const ErrorModel& model, double bound) {
  const bool finite = z - z == 0 && model.variance <= std::numeric_limits<double>::max();
  // Squares as small as this have lost bits, unless they are zero.
  const bool lost = model.variance < 1e-280 && z != 0;
  if (finite && r == z) return 0;
  if (finite && r - r != 0 && model.may_overflow) return overflows;
  if (!finite || lost) return std::numeric_limits<double>::quiet_NaN();
  const double error = r < z ? z - r : r - z;
  return error != error ? std::numeric_limits<double>::infinity() : error / bound;
}

/// Adds the result of row `row` to the verdict of the rows before it.
constexpr void take(TileVerdict& verdict, const RowVerdict& found, std::uint64_t row) {
  const bool overflowed = found.ratio == overflows;
  if (overflowed || found.ratio != found.ratio) {
    verdict.unchecked += 1;
    verdict.overflowed += overflowed ? 1 : 0;
    return;
  }
  if (found.ratio > 1) verdict.failures += 1;
  if (2 * found.bound > verdict.detection_threshold) verdict.detection_threshold = 2 * found.bound;
  if (found.ratio > verdict.worst) verdict.worst = found.ratio, verdict.worst_row = row;
}

/// Adds the verdict on other elements of the same tile, and returns the sum: CheckTileArgs::joins.
constexpr TileVerdict joined(TileVerdict verdict, const TileVerdict& other, bool counts) {
  if (other.worst > verdict.worst) {
    verdict.worst = other.worst;
    verdict.worst_row = other.worst_row;
  }
  verdict.failures += other.failures;
  verdict.unchecked += other.unchecked;
  verdict.overflowed += other.overflowed;
  if (!counts && other.detection_threshold > verdict.detection_threshold) {
    verdict.detection_threshold = other.detection_threshold;
  }
  return verdict;
}

}  // namespace detail

}  // namespace shardstream::gemm
