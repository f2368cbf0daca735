// How readers copy rows of A and B into slots (as stored, or rounded) with checksums, and how fast.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/shard.hpp"
#include "kernels/gemm/precision.hpp"
#include "measure/ceilings.hpp"
#include "pipeline/options.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/operands.hpp"

namespace shardstream::workloads::product {

/// How a reader copies rows of a matrix.
struct RowCopy {
  ElementType type;  ///< as stored
  gemm::Precision precision;
  Backend backend;
  bool rounded;
  bool from_memory;  ///< else from a file or a generator
  std::uint64_t columns;
  std::size_t element;  ///< bytes, as uploaded
};

/// The number of rows of `row_bytes` bytes that are whole words of 8 bytes: the checksum of many is
/// the sum of theirs.
constexpr std::uint64_t whole_word_rows(std::size_t row_bytes) {
  return row_bytes % 8 == 0 ? 1 : 8;
}

/// The rows of a piece: rows of `stored_row` bytes that fill a slot and are uploaded as `row` bytes
/// each. A slot has room for whole_word_rows(row) of them.
constexpr std::uint64_t rows_per_piece(std::size_t slot, std::size_t stored_row, std::size_t row) {
  const std::uint64_t words = whole_word_rows(row);
  return words * std::max<std::uint64_t>(1, slot / std::max<std::size_t>(1, words * stored_row));
}

/// Converts `count` stored elements to uploaded ones at `to`, where the stored ones may be already.
/// Returns their checksum.
std::uint64_t convert_elements(const RowCopy& copy, const std::byte* from, std::uint64_t count,
                               std::byte* to);

/// Copies `rows` rows to `slot`, dense, as they are uploaded, and returns their checksum. It calls
/// get(rows, to) for some rows at a time, which returns the address of these rows as stored, dense:
/// in memory, or `to`, where it has then written them.
template <class Get>
std::uint64_t copy_rows(const RowCopy& copy, std::uint64_t rows, std::byte* slot, const Get& get) {
  // Longer rows need not be copied from memory; shorter ones are worth a call together.
  constexpr std::size_t long_row = std::size_t{4} << 10;
  const std::size_t stored = copy.columns * size_of(copy.type), row = copy.columns * copy.element;
  const std::uint64_t words = whole_word_rows(row);
  const std::uint64_t few =
      words * std::max<std::uint64_t>(1, long_row / (words * std::max<std::size_t>(1, stored)));
  // Rows of a file are read together, which saves system calls and decoding of chunks.
  const std::uint64_t step = copy.from_memory ? few : rows;
  std::uint64_t sum = 0;
  for (std::uint64_t first = 0; first < rows; first += step) {
    const Range some = intersection({first, step}, {0, rows});
    std::byte* const to = slot + first * row;
    sum += convert_elements(copy, get(some, to), some.count * copy.columns, to);
  }
  return sum;
}

/// Whether readers convert the stored elements of A, or of B, to panel elements.
bool readers_round(const Operands& operands, gemm::Side side, Backend backend);

/// The rate of the readers without uploads, in bytes that would be uploaded. They read A and B in
/// proportion to their sizes, from the sources or, if pipeline.mode is pageable, from `sample`
/// bytes of ordinary memory, for about `seconds`, starting over at the end. Collective; throws
/// AgreedError if a matrix cannot be read.
measure::Ceiling panel_read(runtime::Runtime& runtime, const Operands& operands,
                            const pipeline::StagingSizes& staging, std::uint64_t sample,
                            double seconds);

}  // namespace shardstream::workloads::product
