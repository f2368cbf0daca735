// Freivalds' check of a product, fused into its passes (R. Freivalds, Probabilistic machines can
// use less running time, IFIP 1977): C x = A (B x) for a vector x of random signs, one vector for
// each column tile J of C. Panels are canonical (panel.hpp), sums are doubles, every sum has a
// fixed order on each backend (no floating-point atomics), and nothing here waits or synchronises.
// kernels/README.md derives the bound.
//
//   Y[kk][J] = sum over c in J of B[kk][c] x(c)          signed_sums, by who owns the rows of B
//   Z[i][J] += sum over kk of A[i][kk] Y[kk][J]          add_products, for every K block
//   R[i][J]  = sum over c in J of C[i][c] x(c)           check_rows; then |R - Z| against a bound
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/data/generate.hpp"
#include "kernels/gemm/grid.hpp"
#include "kernels/gemm/precision.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::gemm {

/// Bit b of word w is set where column 64 w + b has the sign -1.
constexpr std::uint64_t sign_word(std::uint64_t seed, std::uint64_t word) {
  return mix(stream_of(seed) + word * 0x9e3779b97f4a7c15u);
}

/// +1 or -1, of a column of all of C; the same on every backend.
constexpr int sign_of(std::uint64_t seed, std::uint64_t column) {
  return ((sign_word(seed, column / 64) >> (column % 64)) & 1u) != 0 ? -1 : 1;
}

/// Forms Y of some rows of a B panel, and beside it the squares that the bound needs. Both are
/// gathered together: y has 2 * tiles columns, first Y's, then the sums of the squares of
/// B[kk][c], c in J.
struct SignedSumsArgs {
  const void* panel;  ///< rows x (tiles * tile_n)
  Precision precision;
  std::uint64_t rows;
  std::uint64_t ld;  ///< elements
  std::uint64_t tile_n, tiles;
  std::uint64_t seed;
  std::uint64_t first_column;  ///< the panel's first one, in C
  double* y;                   ///< dense rows x (2 * tiles)
};
Kernel<SignedSumsArgs> signed_sums_kernel();

/// Adds one K block to Z and to the squares of A's rows and B's column tiles; `first` sets instead.
/// A panel of few rows leaves most of a GPU idle, so several slices of the depth can be summed side
/// by side, each into a Z and squares of its own.
struct AddProductsArgs {
  const void* panel;  ///< A's, rows x depth
  Precision precision;
  std::uint64_t rows, depth;
  std::uint64_t ld;  ///< elements
  const double* y;   ///< dense depth x (2 * tiles), of signed_sums, all rows of the K block
  std::uint64_t tiles;
  double* z;               ///< dense rows x tiles
  double* row_squares;     ///< rows
  double* column_squares;  ///< tiles
  bool first;
  std::uint64_t slices = 1;
  std::uint64_t slice_apart = 0;  ///< doubles from a slice's z and squares to the next one's
};
Kernel<AddProductsArgs> add_products_kernel();

/// What the check of one row of a tile found.
struct RowVerdict {
  double ratio;  ///< |R - Z| / bound; NaN if the row can't be checked
  double bound;
  double squares;  ///< sum of the squares of the row's elements, for the bound
};

struct TileVerdict {
  double worst;             ///< largest |R - Z| / bound of its rows; above 1 is a failure
  std::uint64_t worst_row;  ///< in the tile; the first one if several are alike
  std::uint64_t failures;   ///< rows
  /// Rows that can't be checked: A or B have values that are not finite, or whose squares are not,
  /// or C's type is too small for their products.
  std::uint64_t unchecked;
  /// A wrong element that is further off than this is caught in every row that is checked, as long
  /// as the row's rounding errors alone are inside the bound: twice the largest bound.
  double detection_threshold;
};

/// Checks a tile of C before alpha and beta, in two launches: check_rows_kernel() fills
/// row_verdicts, verdict_kernel() joins them. Only rows x columns are looked at, not the padding.
struct CheckTileArgs {
  const void* tile;  ///< of accumulator_type(precision)
  Precision precision;
  std::uint64_t rows, columns;
  std::uint64_t ld;  ///< elements
  std::uint64_t seed;
  std::uint64_t first_column;    ///< the tile's first one, in C
  std::uint64_t k;               ///< products in a sum, without padding
  const double* z;               ///< of the tile's first row and column tile
  std::uint64_t z_stride;        ///< elements from one row of z to the next
  const double* row_squares;     ///< of the tile's first row
  const double* column_squares;  ///< of the tile's column tile: one value
  RowVerdict* row_verdicts;      ///< scratch of `rows`
  TileVerdict* verdict;
};
Kernel<CheckTileArgs> check_rows_kernel();
Kernel<CheckTileArgs> verdict_kernel();

/// Slices for the products of a matrix A of `rows` rows: a power of two.
constexpr std::uint64_t check_slices(std::uint64_t rows) {
  constexpr std::uint64_t enough_rows = 16384, most = 8;
  std::uint64_t slices = 1;
  while (slices < most && slices * rows < enough_rows) slices *= 2;
  return slices;
}

namespace detail {

/// The depth of each slice but the last ones, a multiple of the depth that a GPU takes at a time.
constexpr std::uint64_t slice_depth(std::uint64_t depth, std::uint64_t slices) {
  constexpr std::uint64_t step = 32;
  return ((depth + slices - 1) / slices + step - 1) / step * step;
}

/// The variance of R - Z and what subnormal numbers add at worst to its size.
struct ErrorModel {
  double variance, underflow;
  double largest;  ///< number that an element may be
};

/// Of fp32x3's products, with what splitting leaves out.
constexpr double split_variance(double k, double columns, double c, double most, double row_squares,
                                double column_squares) {
  const auto block = static_cast<double>(
      tile_for(1, 1, static_cast<std::uint64_t>(k), Precision::fp32x3, false).k);
  const double depth = block < k ? block : k, calls = k / depth, steps = depth / 8;
  const double t = 0x1p-23, u = 0x1p-24;
  const double in_calls = (c * depth / 9 + most / 6) / calls + c * steps * steps / 16;
  const double of_calls = c * calls / 9 + most / 6;
  const double left_out = 0x1p-42 * c + 0x1p-45 * most / k;
  const double too_small = 0x1p-274 / 3 * (column_squares + columns * row_squares);
  return t * t * in_calls + u * u * of_calls + left_out + too_small;
}

constexpr ErrorModel error_model(Precision precision, double k, double columns, double tile_squares,
                                 double row_squares, double column_squares) {
  if (precision == Precision::int8) return {0x1p-8, 0, 0x1p31};  // eight deviations are a half
  const bool tensor_cores = precision != Precision::fp64 && precision != Precision::fp32;
  const double v = 0x1p-53;
  const double u = precision == Precision::fp64 ? v : tensor_cores ? 0x1p-23 : 0x1p-24;
  const double most = row_squares * column_squares;
  // Right elements are no larger (Cauchy and Schwarz), and a wrong one shall not widen its bound.
  const double c = tile_squares < most ? tile_squares : most;
  const double steps = k / (precision == Precision::tf32 ? 8 : 16);
  const double bias = tensor_cores ? steps * steps / 16 * c : 0;
  const double walk = k / 9 * c + most / 6;
  const double product = precision == Precision::fp32x3
                             ? split_variance(k, columns, c, most, row_squares, column_squares)
                             : u * u * (walk + bias);
  const double signed_sum = columns / 6 * (c + most / k);
  const double smallest = precision == Precision::fp64 ? 0x1p-1074 : 0x1p-149;
  const double terms = precision == Precision::fp32x3 ? 3 * k : k;
  const double largest = precision == Precision::fp64 ? std::numeric_limits<double>::max()
                                                      : std::numeric_limits<float>::max();
  return {product + v * v * (walk + signed_sum), terms * columns * smallest, largest};
}

/// RowVerdict::ratio.
constexpr double ratio_of(double r, double z, const ErrorModel& model, double bound) {
  const bool finite = z - z == 0 && model.variance <= std::numeric_limits<double>::max();
  // Squares as small as this have lost bits, unless they are those of zeros.
  const bool lost = model.variance < 1e-280 && z != 0;
  const bool overflows = r - r != 0 && (z > model.largest || -z > model.largest);
  if (finite && r == z) return 0;
  if (!finite || lost || overflows) return std::numeric_limits<double>::quiet_NaN();
  const double error = r < z ? z - r : r - z;
  return error != error ? std::numeric_limits<double>::infinity() : error / bound;
}

/// Takes row `row` into the verdict of rows before it.
constexpr void take(TileVerdict& verdict, const RowVerdict& found, std::uint64_t row) {
  if (found.ratio != found.ratio) {
    verdict.unchecked += 1;
    return;
  }
  if (found.ratio > 1) verdict.failures += 1;
  if (2 * found.bound > verdict.detection_threshold) verdict.detection_threshold = 2 * found.bound;
  if (found.ratio > verdict.worst) verdict.worst = found.ratio, verdict.worst_row = row;
}

}  // namespace detail

}  // namespace shardstream::gemm
