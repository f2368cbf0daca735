#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/panel/transpose.cuh"

namespace shardstream::gemm::cuda {
namespace {

constexpr unsigned threads = 256, warp = 32;

/// The edge from which on a matrix of narrow elements is transposed by words: with fewer rows or
/// columns most threads of a square would be idle.
constexpr std::uint64_t enough_for_words = 64;

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
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

/// Like transpose_rectangles(), but for narrow elements, one word at a time. A block transposes
/// warp x warp squares of PerWord x PerWord elements. Sizes and leading dimensions are in words of
/// PerWord elements.
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
  const std::uint64_t to_rows = std::max(args.columns, args.to_rows);
  const std::uint64_t to_columns = std::max(args.rows, args.to_columns);
  if constexpr (per_word > 1) {
    const auto in_words = [](const void* data, std::uint64_t ld) {
      return reinterpret_cast<std::uintptr_t>(data) % 4 == 0 && ld % per_word == 0;
    };
    if (in_words(args.from, args.ld) && in_words(args.to, args.ld_to) &&
        args.rows % per_word == 0 && args.columns % per_word == 0 &&
        std::min(args.rows, args.columns) >= enough_for_words && to_rows == args.columns &&
        to_columns == args.rows) {
      const std::uint64_t rows = args.columns / per_word, columns = args.rows / per_word;
      const std::uint64_t blocks = ceil_div(rows, warp) * ceil_div(columns, warp);
      transpose_narrow<per_word><<<static_cast<unsigned>(blocks), threads, 0, stream>>>(
          static_cast<const std::uint32_t*>(args.from), args.ld / per_word,
          static_cast<std::uint32_t*>(args.to), rows, columns, args.ld_to / per_word);
      return;
    }
  }
  const Transposition<T, Whole<T>> of{
      static_cast<const T*>(args.from),       args.ld, args.columns, args.rows,
      {static_cast<T*>(args.to), args.ld_to}, to_rows, to_columns};
  transpose_all(of, Unchanged{}, stream);
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

}  // namespace

void transpose(const TransposeArgs& args, CudaStream stream) {
  if (std::max(args.columns, args.to_rows) == 0 || std::max(args.rows, args.to_columns) == 0)
    return;
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

}  // namespace shardstream::gemm::cuda
