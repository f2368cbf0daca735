#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>

#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/panel/destination.cuh"
#include "kernels/gemm/panel/element.cuh"
#include "kernels/gemm/panel/rounding.hpp"
#include "kernels/gemm/panel/shifted.hpp"
#include "kernels/gemm/panel/transpose.cuh"

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

/// The division of a matrix into packs of `width` elements. Each block of threads processes
/// `threads` packs of one row or, if rows are short, several whole rows.
struct Grid {
  std::uint64_t rows, columns, blocks_a_row;
  unsigned rows_a_block, packs_a_row;  ///< packs_a_row: only if rows_a_block > 1
  unsigned blocks() const {
    return static_cast<unsigned>(ceil_div(rows, rows_a_block) * blocks_a_row);
  }
};
Grid grid_of(std::uint64_t rows, std::uint64_t columns, unsigned width) {
  const std::uint64_t packs = ceil_div(columns, width);
  if (2 * packs > threads) return {rows, columns, ceil_div(packs, threads), 1, 0};
  const auto packs_a_row = static_cast<unsigned>(packs);
  return {rows, columns, 1, threads / packs_a_row, packs_a_row};
}
struct PackPosition {
  std::uint64_t row, column;
  bool inside;
};
__device__ PackPosition place_in(const Grid& grid, unsigned width) {
  if (grid.rows_a_block > 1) {
    const unsigned row = threadIdx.x / grid.packs_a_row, pack = threadIdx.x % grid.packs_a_row;
    const std::uint64_t r = std::uint64_t{blockIdx.x} * grid.rows_a_block + row;
    return {r, std::uint64_t{pack} * width, row < grid.rows_a_block && r < grid.rows};
  }
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

/// Makes the panel's element from a changed one.
template <Format F>
struct Changed {
  const double *shift, *scale, *factor;
  const std::int64_t* whole;
  std::uint8_t* lost;
  Side side;
  bool shifts_samples;

  explicit Changed(const CanonicalizeArgs& args)
      : shift(args.shift),
        scale(args.scale),
        factor(args.factor),
        whole(args.whole),
        lost(args.lost),
        side(args.side),
        shifts_samples(args.shifts_samples) {}

  template <class T>
  __device__ Element<F> operator()(T stored, std::uint64_t row, std::uint64_t column) const {
    if constexpr (can_round<F, double>) {
      const std::uint64_t variable = side == Side::a ? row : column;
      const std::uint64_t sample = side == Side::a ? column : row;
      const std::uint64_t shifted = shifts_samples ? sample : variable;
      double x = without_whole(stored, shifted);
      if (shift != nullptr) x -= shift[shifted];
      if (scale != nullptr) x = multiplied(x, scale[variable]);
      if (factor != nullptr) x = multiplied(x, factor[sample]);
      // All threads that mark a variable write the same value.
      constexpr double vanishing = traits_of(F).range.vanishing;
      if (lost != nullptr && vanishes(x, vanishing)) lost[variable] = 1;
      return encoded<F>(rounded<F>(x));
    } else {
      return encoded<F>(rounded<F>(stored));
    }
  }

 private:
  template <class T>
  __device__ double without_whole(T stored, std::uint64_t shifted) const {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      if (whole != nullptr) return difference(stored, whole[shifted]);
    }
    const auto x = static_cast<double>(stored);
    return std::is_floating_point_v<T> ? finite_or_nan(x) : x;
  }
};

/// The valid elements of a matrix: dense, rows x columns.
template <class T>
struct Valid {
  const T* data;
  std::uint64_t rows, columns;
  bool fours;  ///< whether its rows can be read in Packs of four

  Valid(const T* at, std::uint64_t height, std::uint64_t width)
      : data(at), rows(height), columns(width), fours(in_fours<T>(at, width)) {}

  __device__ bool has(std::uint64_t row, std::uint64_t column) const {
    return row < rows && column < columns;
  }
  /// The elements from `column` on, with zeros beyond the valid ones.
  template <unsigned Width>
  __device__ Pack<T, Width> load(std::uint64_t row, std::uint64_t column) const {
    const T* const from = data + row * columns + column;
    if (Width == 4 && fours && has(row, column)) {
      return *reinterpret_cast<const Pack<T, Width>*>(from);
    }
    Pack<T, Width> some{};
#pragma unroll
    for (unsigned i = 0; i < Width; ++i) {
      if (has(row, column + i)) some.element[i] = from[i];
    }
    return some;
  }
};

/// Sets the elements of `to` to the converted valid elements, or to zero. A thread makes one pack.
template <unsigned Width, class T, class To, class Make>
__global__ void __launch_bounds__(threads) convert(Valid<T> from, To to, Grid grid, Make make) {
  const PackPosition at = place_in(grid, Width);
  if (!at.inside) return;
  const auto in = from.template load<Width>(at.row, at.column);
  Pack<typename To::Element, Width> out{};
#pragma unroll
  for (unsigned i = 0; i < Width; ++i) {
    if (from.has(at.row, at.column + i)) {
      out.element[i] = make(in.element[i], at.row, at.column + i);
    }
  }
  *reinterpret_cast<decltype(out)*>(to.at(at.row, at.column)) = out;
}

/// Converts to rows x columns elements. To: a destination (destination.cuh), in which four
/// neighbouring elements of an aligned row stay neighbours.
template <class T, class To, class Make>
void convert_all(const Valid<T>& from, const To& to, std::uint64_t rows, std::uint64_t columns,
                 const Make& make, CudaStream stream) {
  if (columns % 4 == 0 && in_fours<typename To::Element>(to.data, rows > 1 ? to.ld : columns)) {
    const Grid grid = grid_of(rows, columns, 4);
    convert<4><<<grid.blocks(), threads, 0, stream>>>(from, to, grid, make);
  } else {
    const Grid grid = grid_of(rows, columns, 1);
    convert<1><<<grid.blocks(), threads, 0, stream>>>(from, to, grid, make);
  }
}

/// If `Dense`, `make` does not depend on row and column, so that a dense panel without padding is
/// treated as one row.
template <bool Dense, class T, class To, class Make>
void convert_panel(const CanonicalizeArgs& args, const T* raw, const To& panel, const Make& make,
                   CudaStream stream) {
  const std::uint64_t rows = std::min(args.rows, args.valid_rows);
  const std::uint64_t columns = std::min(args.columns, args.valid_columns);
  if (args.transpose) {
    const Transposition<T, To> of{raw, rows, rows, columns, panel, args.rows, args.columns};
    return transpose_all(of, make, stream);
  }
  const std::uint64_t all = args.rows * args.columns;
  if (Dense && args.ld == args.columns && rows * columns == all) {
    return convert_all(Valid<T>(raw, 1, all), panel, 1, all, make, stream);
  }
  convert_all(Valid<T>(raw, rows, columns), panel, args.rows, args.columns, make, stream);
}

/// Makes an element of a plane; Make makes one of a panel without planes. The plane is no template
/// parameter, since each kernel takes time to compile and waits for memory.
template <Format F, class Make>
struct OfPlane {
  Make make;
  Plane plane;

  template <class T>
  __device__ Element<F> operator()(T stored, std::uint64_t row, std::uint64_t column) const {
    if (stored != stored) return Element<F>{};  // NaN: missing
    if (plane == Plane::mask) return encoded<F>(1.0F);
    const Element<F> made = make(stored, row, column);
    if (plane == Plane::values) return made;
    const double value = value_of(made);
    return encoded<F>(rounded<F>(value * value));
  }
};

/// Makes the planes of the panel. The stored elements are read again for each plane, but mostly
/// from the cache, and the writes take more time.
template <Format F, class T>
void convert_planes(const CanonicalizeArgs& args, const T* raw, CudaStream stream) {
  const Changed<F> changed(args);
  const std::array planes = {Plane::values, Plane::mask, Plane::squares};
  for (const Plane plane : std::span(planes).first(args.planes.count)) {
    const InPlane<Element<F>> to{static_cast<Element<F>*>(args.panel), args.ld, args.planes, plane,
                                 args.side};
    convert_panel<false>(args, raw, to, OfPlane<F, Changed<F>>{changed, plane}, stream);
  }
}

template <Format F, class T>
void canonicalize_as(const CanonicalizeArgs& args, CudaStream stream) {
  const auto* raw = static_cast<const T*>(args.raw);
  const Whole<Element<F>> panel{static_cast<Element<F>*>(args.panel), args.ld};
  if (args.planes.count > 1) {
    if constexpr (can_round<F, double>) convert_planes<F>(args, raw, stream);
    return;
  }
  if (!args.changes()) return convert_panel<true>(args, raw, panel, Rounded<F>{}, stream);
  convert_panel<false>(args, raw, panel, Changed<F>(args), stream);
}

template <class T>
void pad_as(const PadArgs& args, CudaStream stream) {
  convert_all(Valid<T>(static_cast<const T*>(args.from), args.rows, args.columns),
              Whole<T>{static_cast<T*>(args.to), args.ld_to}, args.to_rows, args.to_columns,
              Unchanged{}, stream);
}

template <class T, unsigned Width>
__global__ void __launch_bounds__(threads) finish_elements(FinishArgs args, Grid grid) {
  const PackPosition at = place_in(grid, Width);
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
  if (sums_integers(args.precision) && (args.changes() || args.planes.count > 1)) {
    throw std::logic_error("panels of integers do not change and have no planes");
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

void pad(const PadArgs& args, CudaStream stream) {
  if (args.to_rows == 0 || args.to_columns == 0) return;
  switch (args.element_bytes) {
    case 1:
      return pad_as<std::uint8_t>(args, stream);
    case 2:
      return pad_as<std::uint16_t>(args, stream);
    case 4:
      return pad_as<std::uint32_t>(args, stream);
    case 8:
      return pad_as<std::uint64_t>(args, stream);
    default:
      throw std::logic_error("no element has this number of bytes");
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
