#include <algorithm>
#include <stdexcept>

#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/panel/element.cuh"
#include "kernels/gemm/panel/rounding.hpp"
#include "kernels/gemm/panel/shifted.hpp"

namespace shardstream::gemm::cuda {
namespace {

constexpr unsigned threads = 256;

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

/// Neighbouring elements that a thread moves at once.
template <class T, unsigned Width>
struct alignas(Width * sizeof(T) < 16 ? Width * sizeof(T) : 16) Pack {
  T element[Width];
};

/// Whether rows of `ld` elements from `data` on can be read in Packs of four.
template <class T>
bool in_fours(const void* data, std::uint64_t ld) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(Pack<T, 4>) == 0 && ld % 4 == 0;
}

/// Each block of threads processes `threads` packs of one row.
struct Grid {
  std::uint64_t rows, columns, blocks_a_row;
  unsigned blocks() const { return static_cast<unsigned>(rows * blocks_a_row); }
};
Grid grid_of(std::uint64_t rows, std::uint64_t columns, unsigned width) {
  return {rows, columns, ceil_div(columns, std::uint64_t{threads} * width)};
}
struct Place {
  std::uint64_t row, column;
  bool inside;
};
__device__ Place place_in(const Grid& grid, unsigned width) {
  const std::uint64_t row = blockIdx.x / grid.blocks_a_row;
  const std::uint64_t block = blockIdx.x % grid.blocks_a_row;
  const std::uint64_t column = (block * threads + threadIdx.x) * width;
  return {row, column, column < grid.columns};
}

/// Makes the panel's element from a stored one.
template <Format F>
struct Rounded {
  template <class T>
  __device__ Element<F> operator()(T x, std::uint64_t, std::uint64_t) const {
    return encoded<F>(rounded<F>(x));
  }
};

/// Makes the panel's element with shift and scale, and zeros in the invalid part of the panel.
template <Format F>
struct Centred {
  const double *shift, *scale;
  const std::int64_t* whole;
  std::uint8_t* lost;
  Side side;
  std::uint64_t valid_rows, valid_columns;

  template <class T>
  __device__ Element<F> operator()(T stored, std::uint64_t row, std::uint64_t column) const {
    if (row >= valid_rows || column >= valid_columns) return encoded<F>(rounded<F>(T{}));
    if constexpr (can_round<F, double>) {
      if (shift != nullptr || scale != nullptr) {
        const std::uint64_t variable = side == Side::a ? row : column;
        double x = without_whole(stored, variable);
        if (shift != nullptr) x -= shift[variable];
        if (scale != nullptr) x *= scale[variable];
        // All threads that mark a variable write the same value.
        constexpr double vanishing = traits_of(F).range.vanishing;
        if (lost != nullptr && vanishes(x, vanishing)) lost[variable] = 1;
        return encoded<F>(rounded<F>(x));
      }
    }
    return encoded<F>(rounded<F>(stored));
  }

 private:
  template <class T>
  __device__ double without_whole(T stored, std::uint64_t variable) const {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      if (whole != nullptr) return difference(stored, whole[variable]);
    }
    const auto x = static_cast<double>(stored);
    return std::is_floating_point_v<T> ? finite_or_nan(x) : x;
  }
};

struct Unchanged {
  template <class T>
  __device__ T operator()(T x, std::uint64_t, std::uint64_t) const {
    return x;
  }
};

template <unsigned Width, class T, class To, class Make>
__global__ void __launch_bounds__(threads)
    convert(const T* from, To* to, std::uint64_t ld, Grid grid, Make make) {
  const Place at = place_in(grid, Width);
  if (!at.inside) return;
  const auto in =
      *reinterpret_cast<const Pack<T, Width>*>(from + at.row * grid.columns + at.column);
  Pack<To, Width> out;
#pragma unroll
  for (unsigned i = 0; i < Width; ++i) {
    out.element[i] = make(in.element[i], at.row, at.column + i);
  }
  *reinterpret_cast<Pack<To, Width>*>(to + at.row * ld + at.column) = out;
}

constexpr unsigned edge = 64;  // of the squares that a block of threads transposes

/// Sets to[r][c] = from[c][r] for rows x columns of `to`, through a square in shared memory. Its
/// rows are one element longer, so that the elements of a column are in different banks.
template <class T, class To, class Make>
__global__ void __launch_bounds__(threads)
    transpose_squares(const T* from, std::uint64_t ld_from, To* to, std::uint64_t rows,
                      std::uint64_t columns, std::uint64_t ld, Make make) {
  __shared__ To square[edge][edge + 1];
  const std::uint64_t across = ceil_div(rows, edge);
  const std::uint64_t r0 = blockIdx.x % across * edge, c0 = blockIdx.x / across * edge;
  const unsigned x = threadIdx.x % edge, y = threadIdx.x / edge;
#pragma unroll
  for (unsigned i = 0; i < edge; i += threads / edge) {
    const std::uint64_t r = r0 + x, c = c0 + y + i;
    if (c < columns && r < rows) square[y + i][x] = make(from[c * ld_from + r], r, c);
  }
  __syncthreads();
#pragma unroll
  for (unsigned i = 0; i < edge; i += threads / edge) {
    const std::uint64_t r = r0 + y + i, c = c0 + x;
    if (r < rows && c < columns) to[r * ld + c] = square[x][y + i];
  }
}

template <class T, class To, class Make>
void transpose_all(const T* from, std::uint64_t ld_from, To* to, std::uint64_t rows,
                   std::uint64_t columns, std::uint64_t ld, const Make& make, CudaStream stream) {
  const std::uint64_t blocks = ceil_div(rows, edge) * ceil_div(columns, edge);
  transpose_squares<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(from, ld_from, to, rows,
                                                                           columns, ld, make);
}

/// If `Dense`, `make` does not depend on row and column, so that a dense panel is treated as one
/// row.
template <bool Dense, class T, class To, class Make>
void convert_all(const CanonicalizeArgs& args, const T* raw, To* panel, const Make& make,
                 CudaStream stream) {
  if (args.transpose) {
    return transpose_all(raw, args.rows, panel, args.rows, args.columns, args.ld, make, stream);
  }
  const bool dense = Dense && args.ld == args.columns;
  const std::uint64_t rows = dense ? 1 : args.rows;
  const std::uint64_t columns = dense ? args.rows * args.columns : args.columns;
  const bool fours = in_fours<T>(raw, columns) && in_fours<To>(panel, dense ? columns : args.ld);
  const Grid grid = grid_of(rows, columns, fours ? 4 : 1);
  if (fours) {
    convert<4><<<grid.blocks(), threads, 0, stream>>>(raw, panel, args.ld, grid, make);
  } else {
    convert<1><<<grid.blocks(), threads, 0, stream>>>(raw, panel, args.ld, grid, make);
  }
}

template <Format F, class T>
void canonicalize_as(const CanonicalizeArgs& args, CudaStream stream) {
  const auto* raw = static_cast<const T*>(args.raw);
  auto* panel = static_cast<Element<F>*>(args.panel);
  const bool plain = args.shift == nullptr && args.scale == nullptr &&
                     args.rows <= args.valid_rows && args.columns <= args.valid_columns;
  if (plain) return convert_all<true>(args, raw, panel, Rounded<F>{}, stream);
  convert_all<false>(args, raw, panel,
                     Centred<F>{args.shift, args.scale, args.whole, args.lost, args.side,
                                args.valid_rows, args.valid_columns},
                     stream);
}

/// Transposes PerWord words of PerWord elements each: word i gets the i-th element of every word.
template <unsigned PerWord>
__device__ void transpose_words(std::uint32_t (&word)[PerWord]) {
  if constexpr (PerWord == 2) {
    const std::uint32_t first = __byte_perm(word[0], word[1], 0x5410);
    word[1] = __byte_perm(word[0], word[1], 0x7632);
    word[0] = first;
  } else {
    static_assert(PerWord == 4);
    const std::uint32_t low01 = __byte_perm(word[0], word[1], 0x5140);
    const std::uint32_t low23 = __byte_perm(word[2], word[3], 0x5140);
    const std::uint32_t high01 = __byte_perm(word[0], word[1], 0x7362);
    const std::uint32_t high23 = __byte_perm(word[2], word[3], 0x7362);
    word[0] = __byte_perm(low01, low23, 0x5410);
    word[1] = __byte_perm(low01, low23, 0x7632);
    word[2] = __byte_perm(high01, high23, 0x5410);
    word[3] = __byte_perm(high01, high23, 0x7632);
  }
}

constexpr unsigned warp = 32;

/// Like transpose_squares(), but for narrow elements, one word at a time. A block transposes warp x
/// warp squares of PerWord x PerWord elements. Sizes and leading dimensions are in words of PerWord
/// elements.
template <unsigned PerWord>
__global__ void __launch_bounds__(threads)
    transpose_narrow(const std::uint32_t* from, std::uint64_t ld_from, std::uint32_t* to,
                     std::uint64_t rows, std::uint64_t columns, std::uint64_t ld) {
  __shared__ std::uint32_t square[PerWord][warp][warp + 1];
  const std::uint64_t across = ceil_div(rows, warp);
  const std::uint64_t r0 = blockIdx.x % across * warp, c0 = blockIdx.x / across * warp;
  const unsigned x = threadIdx.x % warp, y = threadIdx.x / warp;
  for (unsigned i = y; i < warp; i += threads / warp) {
    if (c0 + i >= columns || r0 + x >= rows) continue;
    std::uint32_t word[PerWord];
#pragma unroll
    for (unsigned j = 0; j < PerWord; ++j) {
      word[j] = from[((c0 + i) * PerWord + j) * ld_from + r0 + x];
    }
    transpose_words<PerWord>(word);
#pragma unroll
    for (unsigned j = 0; j < PerWord; ++j) square[j][x][i] = word[j];
  }
  __syncthreads();
  for (unsigned i = y; i < warp; i += threads / warp) {
    if (r0 + i >= rows || c0 + x >= columns) continue;
#pragma unroll
    for (unsigned j = 0; j < PerWord; ++j) {
      to[((r0 + i) * PerWord + j) * ld + c0 + x] = square[j][i][x];
    }
  }
}

template <class T>
void transpose_as(const TransposeArgs& args, CudaStream stream) {
  constexpr unsigned per_word = 4 / sizeof(T);
  if constexpr (per_word > 1) {
    const auto in_words = [](const void* data, std::uint64_t ld) {
      return reinterpret_cast<std::uintptr_t>(data) % 4 == 0 && ld % per_word == 0;
    };
    if (in_words(args.from, args.ld) && in_words(args.to, args.ld_to) &&
        args.rows % per_word == 0 && args.columns % per_word == 0) {
      const std::uint64_t rows = args.columns / per_word, columns = args.rows / per_word;
      const std::uint64_t blocks = ceil_div(rows, warp) * ceil_div(columns, warp);
      transpose_narrow<per_word><<<static_cast<unsigned>(blocks), threads, 0, stream>>>(
          static_cast<const std::uint32_t*>(args.from), args.ld / per_word,
          static_cast<std::uint32_t*>(args.to), rows, columns, args.ld_to / per_word);
      return;
    }
  }
  transpose_all(static_cast<const T*>(args.from), args.ld, static_cast<T*>(args.to), args.columns,
                args.rows, args.ld_to, Unchanged{}, stream);
}

/// One block per square below or on the diagonal.
template <class T>
__global__ void __launch_bounds__(threads)
    mirror_squares(T* tile, std::uint64_t size, std::uint64_t ld, std::uint64_t across) {
  __shared__ T square[warp][warp + 1];
  const std::uint64_t r0 = blockIdx.x / across * warp, c0 = blockIdx.x % across * warp;
  if (c0 > r0) return;
  const unsigned x = threadIdx.x % warp, y = threadIdx.x / warp;
  for (unsigned i = y; i < warp; i += threads / warp) {
    if (c0 + i < size && r0 + x < size) square[i][x] = tile[(c0 + i) * ld + r0 + x];
  }
  __syncthreads();
  for (unsigned i = y; i < warp; i += threads / warp) {
    const std::uint64_t r = r0 + i, c = c0 + x;
    if (r < size && c < r) tile[r * ld + c] = square[x][i];
  }
}

template <class T>
void mirror_as(const MirrorArgs& args, CudaStream stream) {
  const std::uint64_t across = ceil_div(args.edge, warp);
  mirror_squares<<<static_cast<unsigned>(across * across), threads, 0, stream>>>(
      static_cast<T*>(args.tile), args.edge, args.ld, across);
}

template <class T, unsigned Width>
__global__ void __launch_bounds__(threads) finish_elements(FinishArgs args, Grid grid) {
  const Place at = place_in(grid, Width);
  if (!at.inside) return;
  using Four = Pack<T, Width>;
  const std::uint64_t dense = at.row * grid.columns + at.column;
  auto values = *reinterpret_cast<const Four*>(static_cast<const T*>(args.tile) +
                                               at.row * args.ld_tile + at.column);
  if (args.c0 == nullptr) {
#pragma unroll
    for (T& value : values.element) value = static_cast<T>(args.alpha * value);
  } else {
    const auto c0 = *reinterpret_cast<const Four*>(static_cast<const T*>(args.c0) + dense);
#pragma unroll
    for (unsigned i = 0; i < Width; ++i) {
      values.element[i] =
          static_cast<T>(args.alpha * values.element[i] + args.beta * c0.element[i]);
    }
  }
  auto* const out = static_cast<T*>(args.out) + at.row * args.ld_out + at.column;
  *reinterpret_cast<Four*>(out) = values;
}

template <class T>
void finish_as(const FinishArgs& args, CudaStream stream) {
  const bool dense = args.ld_tile == args.columns && args.ld_out == args.columns;
  const std::uint64_t rows = dense ? 1 : args.rows;
  const std::uint64_t columns = dense ? args.rows * args.columns : args.columns;
  const bool fours = in_fours<T>(args.tile, dense ? columns : args.ld_tile) &&
                     in_fours<T>(args.out, dense ? columns : args.ld_out) &&
                     in_fours<T>(args.c0, columns);
  const Grid grid = grid_of(rows, columns, fours ? 4 : 1);
  if (fours) {
    finish_elements<T, 4><<<grid.blocks(), threads, 0, stream>>>(args, grid);
  } else {
    finish_elements<T, 1><<<grid.blocks(), threads, 0, stream>>>(args, grid);
  }
}

}  // namespace

void canonicalize(const CanonicalizeArgs& args, CudaStream stream) {
  if (args.rows == 0 || args.columns == 0) return;
  const bool centred = args.shift != nullptr || args.scale != nullptr;
  if (sums_integers(args.precision) && centred) {
    throw std::logic_error("panels of integers are not centred");
  }
  with_element_type(args.from, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_format(traits_of(args.precision).panel, [&](auto format) {
      constexpr Format to = decltype(format)::value;
      if constexpr (can_round<to, T>) {
        canonicalize_as<to, T>(args, stream);
      } else {
        throw std::logic_error("a panel of integers can only be made from its own type");
      }
    });
  });
}

void transpose(const TransposeArgs& args, CudaStream stream) {
  if (args.rows == 0 || args.columns == 0) return;
  switch (args.element_bytes) {
    case 1:
      return transpose_as<std::uint8_t>(args, stream);
    case 2:
      return transpose_as<std::uint16_t>(args, stream);
    case 4:
      return transpose_as<std::uint32_t>(args, stream);
    case 8:
      return transpose_as<std::uint64_t>(args, stream);
    default:
      throw std::logic_error("no element has this number of bytes");
  }
}

void mirror(const MirrorArgs& args, CudaStream stream) {
  if (args.edge == 0) return;
  switch (args.element_bytes) {
    case 4:
      return mirror_as<std::uint32_t>(args, stream);
    case 8:
      return mirror_as<std::uint64_t>(args, stream);
    default:
      throw std::logic_error("no tile has elements with this number of bytes");
  }
}

void zero(const ZeroArgs& args, CudaStream stream) {
  cudaMemsetAsync(args.data, 0, args.bytes, stream);  // the caller of a launch checks for errors
}

void finish(const FinishArgs& args, CudaStream stream) {
  if (args.rows == 0 || args.columns == 0) return;
  with_rounded_type(args.precision,
                    [&](auto of) { finish_as<typename decltype(of)::type>(args, stream); });
}

}  // namespace shardstream::gemm::cuda
