#include "kernels/gemm/panel/panel.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/panel/checksum.hpp"
#include "kernels/gemm/panel/round_elements.hpp"
#include "kernels/gemm/panel/rounding.hpp"
#include "kernels/gemm/panel/transposed_blocks.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::gemm {
namespace {

using Eight [[gnu::vector_size(32)]] = std::uint32_t;

/// Transposes 8 x 8 elements: pairs of rows exchange elements, then pairs of elements, then halves.
[[gnu::always_inline]] inline void transpose_eight(Eight (&x)[8]) {
  constexpr Eight low1 = {0, 8, 1, 9, 4, 12, 5, 13}, high1 = {2, 10, 3, 11, 6, 14, 7, 15};
  constexpr Eight low2 = {0, 1, 8, 9, 4, 5, 12, 13}, high2 = {2, 3, 10, 11, 6, 7, 14, 15};
  constexpr Eight low4 = {0, 1, 2, 3, 8, 9, 10, 11}, high4 = {4, 5, 6, 7, 12, 13, 14, 15};
  Eight y[8];
  for (unsigned i = 0; i < 8; i += 2) {
    y[i] = __builtin_shuffle(x[i], x[i + 1], low1);
    y[i + 1] = __builtin_shuffle(x[i], x[i + 1], high1);
  }
  for (unsigned i = 0; i < 8; i += 4) {
    x[i] = __builtin_shuffle(y[i], y[i + 2], low2);
    x[i + 1] = __builtin_shuffle(y[i], y[i + 2], high2);
    x[i + 2] = __builtin_shuffle(y[i + 1], y[i + 3], low2);
    x[i + 3] = __builtin_shuffle(y[i + 1], y[i + 3], high2);
  }
  for (unsigned i = 0; i < 4; ++i) {
    y[i] = __builtin_shuffle(x[i], x[i + 4], low4);
    y[i + 4] = __builtin_shuffle(x[i], x[i + 4], high4);
  }
  for (unsigned i = 0; i < 8; ++i) x[i] = y[i];
}

/// Sets some rows of a matrix to zero beyond its valid rows and columns.
void zero_padding(void* to, Rows rows, std::uint64_t columns, std::uint64_t ld,
                  std::uint64_t valid_rows, std::uint64_t valid_columns, std::size_t element) {
  for (std::uint64_t r = rows.begin; r < rows.end; ++r) {
    const std::uint64_t first = r < valid_rows ? valid_columns : 0;
    std::memset(static_cast<std::byte*>(to) + (r * ld + first) * element, 0,
                (columns - first) * element);
  }
}

/// Calls f with an unsigned integer of `bytes` bytes.
template <class F>
void with_bytes(unsigned bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    case 8:
      return f(std::uint64_t{});
    default:
      throw std::logic_error("no element has this number of bytes");
  }
}

void pad(const PadArgs& args, unsigned part, unsigned parts) {
  const Rows rows = rows_of(args.to_rows, part, parts);
  const std::size_t row = args.columns * args.element_bytes;
  const std::uint64_t end = args.columns > 0 ? std::min(rows.end, args.rows) : 0;
  for (std::uint64_t r = rows.begin; r < end; ++r) {
    std::memcpy(static_cast<std::byte*>(args.to) + r * args.ld_to * args.element_bytes,
                static_cast<const std::byte*>(args.from) + r * row, row);
  }
  zero_padding(args.to, rows, args.to_columns, args.ld_to, args.rows, args.columns,
               args.element_bytes);
}

void transpose(const TransposeArgs& args, unsigned part, unsigned parts) {
  const std::uint64_t columns = std::max(args.rows, args.to_columns);
  const Rows rows = rows_of(std::max(args.columns, args.to_rows), part, parts);
  const Rows valid = {std::min(rows.begin, args.columns), std::min(rows.end, args.columns)};
  zero_padding(args.to, rows, columns, args.ld_to, args.columns, args.rows, args.element_bytes);
  with_bytes(args.element_bytes, [&](auto element) {
    using T = decltype(element);
    detail::for_transposed(
        static_cast<const T*>(args.from), args.ld, valid, args.rows,
        [&](std::uint64_t r, std::uint64_t c, const T* line, std::uint64_t width) {
          T* const to = static_cast<T*>(args.to) + r * args.ld_to + c;
          std::memcpy(to, line, width * sizeof(T));
          // The next part of this row is written after all rows of this block.
          __builtin_prefetch(to + detail::block_edge, 1);
          __builtin_prefetch(to + 2 * detail::block_edge - 1, 1);
        });
  });
}

/// Blocks of rows are dealt to the parts in turn, since later rows have more elements below the
/// diagonal.
void mirror(const MirrorArgs& args, unsigned part, unsigned parts) {
  with_bytes(args.element_bytes, [&](auto element) {
    using T = decltype(element);
    T* const tile = static_cast<T*>(args.tile);
    for (std::uint64_t first = std::uint64_t{part} * detail::block_edge; first < args.edge;
         first += std::uint64_t{parts} * detail::block_edge) {
      const Rows rows = {first, std::min<std::uint64_t>(first + detail::block_edge, args.edge)};
      detail::for_transposed(
          tile, args.ld, rows, rows.end,
          [&](std::uint64_t r, std::uint64_t c, const T* line, std::uint64_t width) {
            if (c < r) {
              std::memcpy(tile + r * args.ld + c, line, std::min(width, r - c) * sizeof(T));
            }
          });
    }
  });
}

void zero(const ZeroArgs& args, unsigned part, unsigned parts) {
  if (args.bytes == 0) return;  // `data` may be null then
  const Rows bytes = rows_of(args.bytes, part, parts);
  std::memset(static_cast<std::byte*>(args.data) + bytes.begin, 0, bytes.end - bytes.begin);
}

/// With many rows, a part sums some of them; otherwise it sums some words of every row.
void add_word_checksums(const WordChecksumArgs& args, unsigned part, unsigned parts) {
  const bool many = args.rows >= parts;
  const Rows rows = many ? rows_of(args.rows, part, parts) : Rows{0, args.rows};
  const Rows words =
      many ? Rows{0, (args.bytes + 7) / 8} : rows_of((args.bytes + 7) / 8, part, parts);
  const std::uint64_t begin = words.begin * 8, end = std::min(words.end * 8, args.bytes);
  const auto* const first = static_cast<const std::byte*>(args.data) + begin;
  std::uint64_t sum = 0;
  for (std::uint64_t row = rows.begin; row < rows.end; ++row) {
    sum += word_checksum(first + row * args.pitch, end - begin);
  }
  std::atomic_ref(*args.sum).fetch_add(sum, std::memory_order_relaxed);
}

template <class T>
SHARDSTREAM_VECTOR_CLONES void finish_row(const T* tile, const T* c0, double alpha, double beta,
                                          std::uint64_t count, T* out) {
  if (c0 == nullptr) {
    for (std::uint64_t i = 0; i < count; ++i) out[i] = static_cast<T>(alpha * tile[i]);
  } else {
    for (std::uint64_t i = 0; i < count; ++i) {
      out[i] = static_cast<T>(alpha * tile[i] + beta * c0[i]);
    }
  }
}

template <class T>
void finish_rows(const FinishArgs& args, Rows rows) {
  const auto* c0 = static_cast<const T*>(args.c0);
  for (std::uint64_t r = rows.begin; r < rows.end; ++r) {
    finish_row(static_cast<const T*>(args.tile) + r * args.ld_tile,
               c0 == nullptr ? nullptr : c0 + r * args.columns, args.alpha, args.beta, args.columns,
               static_cast<T*>(args.out) + r * args.ld_out);
  }
}

void finish(const FinishArgs& args, unsigned part, unsigned parts) {
  const Rows rows = rows_of(args.rows, part, parts);
  with_rounded_type(args.precision,
                    [&](auto of) { finish_rows<typename decltype(of)::type>(args, rows); });
}

}  // namespace

/// Transposes a whole block of 4-byte elements. It prefetches the next block, since hardware does
/// not prefetch for a walk over parts of rows.
SHARDSTREAM_VECTOR_CLONES
void detail::transpose_block(const std::uint32_t* from, std::uint64_t ld,
                             std::uint32_t (*transposed)[block_edge]) {
  for (unsigned j = 0; j < block_edge; ++j) {
    __builtin_prefetch(from + (block_edge + j) * ld);
    __builtin_prefetch(from + (block_edge + j) * ld + block_edge - 1);
  }
  for (unsigned j = 0; j < block_edge; j += 8) {
    for (unsigned i = 0; i < block_edge; i += 8) {
      Eight x[8];
      for (unsigned row = 0; row < 8; ++row) {
        std::memcpy(&x[row], from + (j + row) * ld + i, sizeof(x[row]));
      }
      transpose_eight(x);
      for (unsigned row = 0; row < 8; ++row) {
        std::memcpy(&transposed[i + row][j], &x[row], sizeof(x[row]));
      }
    }
  }
}

PanelWork panel_work(ElementType from, Precision precision, Backend backend, bool transpose,
                     bool centred, bool pads) {
  const bool as_panel = stored_as_panel(from, precision, backend);
  if (centred || (!as_panel && !readers_round(from, precision, backend))) {
    return PanelWork::canonicalize;
  }
  if (transpose) return PanelWork::transpose;
  return pads ? PanelWork::pad : PanelWork::none;
}

Kernel<PadArgs> pad_kernel() {
  return {"gemm_pad", pad, with_cuda<cuda::pad>()};
}
Kernel<TransposeArgs> transpose_kernel() {
  return {"gemm_transpose", transpose, with_cuda<cuda::transpose>()};
}
Kernel<MirrorArgs> mirror_kernel() {
  return {"gemm_mirror", mirror, with_cuda<cuda::mirror>()};
}
Kernel<ZeroArgs> zero_kernel() {
  return {"gemm_zero", zero, with_cuda<cuda::zero>()};
}
Kernel<WordChecksumArgs> word_checksum_kernel() {
  return {"gemm_word_checksum", add_word_checksums, with_cuda<cuda::add_word_checksums>()};
}
Kernel<FinishArgs> finish_kernel() {
  return {"gemm_finish", finish, with_cuda<cuda::finish>()};
}

}  // namespace shardstream::gemm
