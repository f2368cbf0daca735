// Transposes matrices in host memory block by block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/kernel.hpp"

namespace shardstream::gemm::detail {

inline constexpr unsigned block_edge = 32;  ///< of the blocks that are transposed

/// Transposes a whole block of 4-byte elements, and prefetches the next one.
void transpose_block(const std::uint32_t* from, std::uint64_t ld,
                     std::uint32_t (*transposed)[block_edge]);

/// Passes the transpose of `from`, which has `columns` rows of `rows` elements, to `take`: a call
/// take(r, c, line, width) gets `width` elements of row r from column c on. Works block by block,
/// in a buffer in the first-level cache.
template <class T, class Take>
void for_transposed(const T* from, std::uint64_t ld, Rows rows, std::uint64_t columns,
                    Take&& take) {
  T transposed[block_edge][block_edge];
  for (std::uint64_t r = rows.begin; r < rows.end; r += block_edge) {
    const std::uint64_t height = std::min<std::uint64_t>(block_edge, rows.end - r);
    for (std::uint64_t c = 0; c < columns; c += block_edge) {
      const std::uint64_t width = std::min<std::uint64_t>(block_edge, columns - c);
      bool done = false;
      if constexpr (std::is_same_v<T, std::uint32_t>) {
        done = height == block_edge && width == block_edge;
        if (done) transpose_block(from + c * ld + r, ld, transposed);
      }
      for (std::uint64_t j = 0; j < width && !done; ++j) {
        const T* line = from + (c + j) * ld + r;
        for (std::uint64_t i = 0; i < height; ++i) transposed[i][j] = line[i];
      }
      for (std::uint64_t i = 0; i < height; ++i) take(r + i, c, transposed[i], width);
    }
  }
}

}  // namespace shardstream::gemm::detail
