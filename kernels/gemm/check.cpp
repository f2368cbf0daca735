#include "kernels/gemm/check.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/gemm/cuda.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::gemm {
namespace {

struct Sums {
  double sum = 0, squares = 0;
};

template <class V>
using Four [[gnu::vector_size(4 * sizeof(V))]] = V;

/// Has no return value, since the registers of a returned vector depend on the caller's
/// instructions.
template <class T>
[[gnu::always_inline]] inline void load(const T* x, Four<double>& to) {
  Four<T> four;
  std::memcpy(&four, x, sizeof(four));
  to = __builtin_convertvector(four, Four<double>);
}

/// The sum of four lanes, pair by pair. Takes a reference for the reason given at load().
[[gnu::always_inline]] inline double joined(const Four<double>& lanes) {
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

/// Prefetches the cache line of x[i] in the next row, since the hardware's prefetches end with the
/// part of a row that is summed.
template <class T>
[[gnu::always_inline]] inline void fetch_next_row(const T* x, std::uint64_t ld, std::uint64_t i) {
  if (i % (64 / sizeof(T)) == 0) __builtin_prefetch(x + ld + i);
}

/// The sums of x[i] * y[i] and of x[i]^2, in sixteen lanes that are then added pair by pair. `ld`
/// is the leading dimension of x.
template <class T>
SHARDSTREAM_VECTOR_CLONES Sums sums(const T* x, std::uint64_t ld, const double* y,
                                    std::uint64_t count) {
  constexpr unsigned flight = 4;
  Four<double> sum[flight] = {}, squares[flight] = {};
  std::uint64_t at = 0;
  for (; at + 4 * flight <= count; at += 4 * flight) {
    for (unsigned i = 0; i < flight; ++i) {
      fetch_next_row(x, ld, at + 4 * i);
      Four<double> a, b;
      load(x + at + 4 * i, a);
      load(y + at + 4 * i, b);
      sum[i] += a * b;
      squares[i] += a * a;
    }
  }
  Sums total{joined((sum[0] + sum[2]) + (sum[1] + sum[3])),
             joined((squares[0] + squares[2]) + (squares[1] + squares[3]))};
  for (; at < count; ++at) {
    const auto a = static_cast<double>(x[at]);
    total.sum += a * y[at];
    total.squares += a * a;
  }
  return total;
}

constexpr std::uint64_t chunk = 512;  // columns whose signs are computed at a time, for all rows

std::array<double, chunk> signs_from(std::uint64_t seed, std::uint64_t first, std::uint64_t count) {
  std::array<double, chunk> signs;
  for (std::uint64_t i = 0; i < count; ++i) signs[i] = sign_of(seed, first + i);
  return signs;
}

/// Calls use(row, sums) for each chunk of columns and, in it, for each row in order.
template <class T, class Use>
void for_chunks(const T* elements, std::uint64_t ld, Rows rows, std::uint64_t columns,
                std::uint64_t seed, std::uint64_t first_column, Use use) {
  for (std::uint64_t c = 0; c < columns; c += chunk) {
    const std::uint64_t width = std::min(chunk, columns - c);
    const auto signs = signs_from(seed, first_column + c, width);
    for (std::uint64_t r = rows.begin; r < rows.end; ++r) {
      const T* x = elements + r * ld + c;
      use(r, sums(x, ld, signs.data(), width));
    }
  }
}

void signed_sums(const SignedSumsArgs& args, unsigned part, unsigned parts) {
  const Rows rows = rows_of(args.rows, part, parts);
  std::fill(args.y + rows.begin * 2 * args.tiles, args.y + rows.end * 2 * args.tiles, 0.0);
  with_host_panel_type(args.precision, [&](auto of) {
    const auto* panel = static_cast<const typename decltype(of)::type*>(args.panel);
    for (std::uint64_t tile = 0; tile < args.tiles; ++tile) {
      const std::uint64_t c = tile * args.tile_n;
      for_chunks(panel + c, args.ld, rows, args.tile_n, args.seed, args.first_column + c,
                 [&](std::uint64_t row, Sums some) {
                   double* y = args.y + row * 2 * args.tiles + tile;
                   y[0] += some.sum;
                   y[args.tiles] += some.squares;
                 });
    }
  });
}

// The part of Y that stays in the nearest cache while rows of A are processed.
constexpr std::uint64_t block_depth = 512, block_rows = 64;
constexpr unsigned block_tiles = 4;

/// Adds the sum of x[i]^2 to `squares` (if not null) and, for `Tiles` columns of Y, the sums of
/// x[i] * y[tile][i] to z[tile]. Each sum has eight lanes, which are added pair by pair, and then
/// the remaining elements.
template <unsigned Tiles, class T>
[[gnu::always_inline]] inline void add_row(const T* x, std::uint64_t ld,
                                           const double (*y)[block_depth], std::uint64_t depth,
                                           double* z, double* squares) {
  Four<double> sum[Tiles][2] = {}, square[2] = {};
  std::uint64_t i = 0;
  for (; i + 8 <= depth; i += 8) {
    for (unsigned half = 0; half < 2; ++half) {
      fetch_next_row(x, ld, i + 4 * half);
      Four<double> a;
      load(x + i + 4 * half, a);
      square[half] += a * a;
      for (unsigned tile = 0; tile < Tiles; ++tile) {
        Four<double> b;
        load(&y[tile][i + 4 * half], b);
        sum[tile][half] += a * b;
      }
    }
  }
  double rest_square = joined(square[0] + square[1]), rest[Tiles];
  for (unsigned tile = 0; tile < Tiles; ++tile) rest[tile] = joined(sum[tile][0] + sum[tile][1]);
  for (; i < depth; ++i) {
    const auto a = static_cast<double>(x[i]);
    rest_square += a * a;
    for (unsigned tile = 0; tile < Tiles; ++tile) rest[tile] += a * y[tile][i];
  }
  if (squares != nullptr) *squares += rest_square;
  for (unsigned tile = 0; tile < Tiles; ++tile) z[tile] += rest[tile];
}

/// Adds the products of rows x [kk, kk + depth) of A with `tiles` columns of Y from column `first`
/// on, which are in `y`. With the first columns, it also adds the rows' squares.
template <class T>
SHARDSTREAM_VECTOR_CLONES void add_rows(const AddProductsArgs& args, Rows rows, std::uint64_t kk,
                                        std::uint64_t depth, std::uint64_t first, unsigned tiles,
                                        const double (*y)[block_depth]) {
  for (std::uint64_t r = rows.begin; r < rows.end; ++r) {
    const T* const x = static_cast<const T*>(args.panel) + r * args.ld + kk;
    double* const z = args.z + r * args.tiles + first;
    double* const squares = first == 0 ? args.row_squares + r : nullptr;
    switch (tiles) {
      case 1:
        add_row<1>(x, args.ld, y, depth, z, squares);
        break;
      case 2:
        add_row<2>(x, args.ld, y, depth, z, squares);
        break;
      case 3:
        add_row<3>(x, args.ld, y, depth, z, squares);
        break;
      default:
        add_row<block_tiles>(x, args.ld, y, depth, z, squares);
    }
  }
}

/// Adds the products of rows x [kk, kk + depth) of A with Y.
template <class T>
void add_block(const AddProductsArgs& args, Rows rows, std::uint64_t kk, std::uint64_t depth) {
  alignas(64) double y[block_tiles][block_depth];
  for (std::uint64_t first = 0; first < args.tiles; first += block_tiles) {
    const auto tiles =
        static_cast<unsigned>(std::min<std::uint64_t>(block_tiles, args.tiles - first));
    for (std::uint64_t i = 0; i < depth; ++i) {
      const double* line = args.y + (kk + i) * 2 * args.tiles + first;
      for (unsigned tile = 0; tile < tiles; ++tile) y[tile][i] = line[tile];
    }
    add_rows<T>(args, rows, kk, depth, first, tiles, y);
  }
}

void add_slice(const AddProductsArgs& args, unsigned part, unsigned parts) {
  const Rows rows = rows_of(args.rows, part, parts), tiles = rows_of(args.tiles, part, parts);
  if (args.first) {
    std::fill(args.z + rows.begin * args.tiles, args.z + rows.end * args.tiles, 0.0);
    std::fill(args.row_squares + rows.begin, args.row_squares + rows.end, 0.0);
    std::fill(args.column_squares + tiles.begin, args.column_squares + tiles.end, 0.0);
  }
  for (std::uint64_t kk = 0; kk < args.depth; ++kk) {
    const double* squares = args.y + kk * 2 * args.tiles + args.tiles;
    for (std::uint64_t j = tiles.begin; j < tiles.end; ++j) args.column_squares[j] += squares[j];
  }
  with_host_panel_type(args.precision, [&](auto of) {
    for (std::uint64_t r = rows.begin; r < rows.end; r += block_rows) {
      for (std::uint64_t kk = 0; kk < args.depth; kk += block_depth) {
        add_block<typename decltype(of)::type>(args, {r, std::min(r + block_rows, rows.end)}, kk,
                                               std::min(block_depth, args.depth - kk));
      }
    }
  });
}

void add_products(const AddProductsArgs& args, unsigned part, unsigned parts) {
  const std::uint64_t depth = detail::slice_depth(args.depth, args.slices);
  for (std::uint64_t s = 0; s < args.slices; ++s) {
    const std::uint64_t first = std::min(s * depth, args.depth), at = s * args.slice_pitch;
    AddProductsArgs one = args;
    one.panel = static_cast<const std::byte*>(args.panel) +
                first * panel_element_bytes(args.precision, Backend::host);
    one.depth = std::min(depth, args.depth - first);
    one.y = args.y + first * 2 * args.tiles;
    one.z = args.z + at;
    one.row_squares = args.row_squares + at;
    one.column_squares = args.column_squares + at;
    add_slice(one, part, parts);
  }
}

void check_rows(const CheckTileArgs& args, unsigned part, unsigned parts) {
  const Rows rows = rows_of(args.rows, part, parts);
  RowVerdict* found = args.row_verdicts;
  std::fill(found + rows.begin, found + rows.end, RowVerdict{});
  with_accumulator_type(args.precision, [&](auto of) {
    for_chunks(static_cast<const typename decltype(of)::type*>(args.tile), args.ld, rows,
               args.columns, args.seed, args.first_column, [&](std::uint64_t row, Sums some) {
                 found[row].ratio += some.sum;  // R, until the ratio is computed below
                 found[row].squares += some.squares;
               });
  });
  const auto parameters =
      detail::error_parameters(args.precision, args.k, args.counts, args.drifts, args.moduli);
  for (std::uint64_t row = rows.begin; row < rows.end; ++row) {
    const auto model =
        detail::error_model(parameters, static_cast<double>(args.columns), found[row].squares,
                            args.row_squares[row], *args.column_squares);
    found[row].bound = 8 * std::sqrt(model.variance) + model.underflow;
    found[row].ratio =
        detail::ratio_of(found[row].ratio, args.z[row * args.z_stride], model, found[row].bound);
  }
}

/// One part does all the work, which takes little time.
void verdict(const CheckTileArgs& args, unsigned part, unsigned) {
  if (part != 0) return;
  TileVerdict all{};
  for (std::uint64_t row = 0; row < args.rows; ++row) {
    detail::take(all, args.row_verdicts[row], row);
  }
  *args.verdict = args.joins ? detail::joined(*args.verdict, all, args.counts) : all;
}

}  // namespace

Kernel<SignedSumsArgs> signed_sums_kernel() {
  return {"gemm_signed_sums", signed_sums, with_cuda<cuda::signed_sums>()};
}
Kernel<AddProductsArgs> add_products_kernel() {
  return {"gemm_add_products", add_products, with_cuda<cuda::add_products>()};
}
Kernel<CheckTileArgs> check_rows_kernel() {
  return {"gemm_check_rows", check_rows, with_cuda<cuda::check_rows>()};
}
Kernel<CheckTileArgs> verdict_kernel() {
  return {"gemm_verdict", verdict, with_cuda<cuda::verdict>()};
}

}  // namespace shardstream::gemm
