// Transposes matrices on a GPU through shared memory, and converts their elements on the way.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/gemm/panel/destination.cuh"
#include "kernels/kernel.hpp"

namespace shardstream::gemm::cuda {

inline constexpr unsigned transpose_threads = 256;
inline constexpr unsigned rectangle_elements = 4096;  // that a block of threads transposes
inline constexpr unsigned shortest_rectangle = 4;     // edge

/// A transposition: to[r][c] = from[c][r]. `to` has rows x columns, of which valid_rows x
/// valid_columns come from `from`. The others become zeros. To: a destination (destination.cuh).
template <class T, class To>
struct Transposition {
  const T* from;
  std::uint64_t ld_from;
  std::uint64_t valid_rows, valid_columns;
  To to;
  std::uint64_t rows, columns;
};

/// The rectangle of `to` that a block of threads writes. Both edges are powers of two. A matrix
/// with few rows or columns has long rectangles, so that all threads work.
struct Rectangle {
  unsigned rows, columns;
  unsigned log_rows, log_columns;
  unsigned pitch;  ///< of a column in shared memory; avoids conflicts when a row is read

  Rectangle(std::uint64_t to_rows, std::uint64_t to_columns) {
    constexpr unsigned edge = 64;
    static_assert(edge * edge == rectangle_elements);
    const auto fitting = [](std::uint64_t x) {
      return static_cast<unsigned>(std::clamp<std::uint64_t>(
          std::bit_ceil(std::min<std::uint64_t>(x, edge)), shortest_rectangle, edge));
    };
    rows = to_rows < edge ? fitting(to_rows) : rectangle_elements / fitting(to_columns);
    columns = rectangle_elements / rows;
    log_rows = static_cast<unsigned>(std::countr_zero(rows));
    log_columns = static_cast<unsigned>(std::countr_zero(columns));
    pitch = rows + std::max(1U, 32 / columns);
  }
};

template <class T, class To, class Make>
__global__ void __launch_bounds__(transpose_threads)
    transpose_rectangles(Transposition<T, To> of, Rectangle shape, Make make) {
  constexpr unsigned longest = rectangle_elements / shortest_rectangle;
  using Element = typename To::Element;
  __shared__ Element rectangle[longest * (shortest_rectangle + 1)];
  const std::uint64_t across = (of.rows + shape.rows - 1) / shape.rows;
  const std::uint64_t r0 = blockIdx.x % across * shape.rows;
  const std::uint64_t c0 = blockIdx.x / across * shape.columns;
#pragma unroll(To::unrolled)
  for (unsigned step = 0; step < rectangle_elements / transpose_threads; ++step) {
    const unsigned i = step * transpose_threads + threadIdx.x;
    const unsigned x = i & (shape.rows - 1), y = i >> shape.log_rows;
    const std::uint64_t r = r0 + x, c = c0 + y;
    const bool valid = r < of.valid_rows && c < of.valid_columns;
    rectangle[y * shape.pitch + x] = valid ? make(of.from[c * of.ld_from + r], r, c) : Element{};
  }
  __syncthreads();
#pragma unroll(To::unrolled)
  for (unsigned step = 0; step < rectangle_elements / transpose_threads; ++step) {
    const unsigned i = step * transpose_threads + threadIdx.x;
    const unsigned x = i & (shape.columns - 1), y = i >> shape.log_columns;
    const std::uint64_t r = r0 + y, c = c0 + x;
    if (r < of.rows && c < of.columns) *of.to.at(r, c) = rectangle[x * shape.pitch + y];
  }
}

/// Calls make(element of `from`, row of `to`, column of `to`) for the valid elements.
template <class T, class To, class Make>
void transpose_all(const Transposition<T, To>& of, const Make& make, CudaStream stream) {
  const Rectangle shape(of.rows, of.columns);
  const std::uint64_t across = (of.rows + shape.rows - 1) / shape.rows;
  const std::uint64_t along = (of.columns + shape.columns - 1) / shape.columns;
  transpose_rectangles<<<static_cast<unsigned>(across * along), transpose_threads, 0, stream>>>(
      of, shape, make);
}

/// Makes an element that is moved without a conversion.
struct Unchanged {
  template <class T>
  __device__ T operator()(T x, std::uint64_t, std::uint64_t) const {
    return x;
  }
};

}  // namespace shardstream::gemm::cuda
