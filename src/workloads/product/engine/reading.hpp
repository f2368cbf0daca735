// How readers bring the rows of A and B: as they are stored or rounded, and summed; and how fast.
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

namespace shardstream::workloads {

/// How a reader brings rows of a matrix.
struct Bringing {
  ElementType type;  ///< as stored
  gemm::Precision precision;
  bool on_host, rounded;
  bool from_memory;  ///< else from a file or a generator
  std::uint64_t columns;
  std::size_t element;  ///< bytes, as uploaded
};

/// So many rows of `row_bytes` bytes are whole words of 8: the checksum of many is the sum of
/// theirs.
constexpr std::uint64_t whole_word_rows(std::size_t row_bytes) {
  return row_bytes % 8 == 0 ? 1 : 8;
}

/// What a reader brings at a time: rows of `stored_row` bytes that fill a slot and are uploaded as
/// `row` bytes each. A slot has room for whole_word_rows(row) of them.
constexpr std::uint64_t rows_a_piece(std::size_t slot, std::size_t stored_row, std::size_t row) {
  const std::uint64_t words = whole_word_rows(row);
  return words * std::max<std::uint64_t>(1, slot / std::max<std::size_t>(1, words * stored_row));
}

/// Makes `count` elements at `to` of stored ones, which may be there already; returns their word
/// sum.
std::uint64_t take(const Bringing& how, const std::byte* from, std::uint64_t count, std::byte* to);

/// Calls get(rows, to) for some of `rows` rows after others; it returns where they are as stored,
/// dense: in memory, or at `to`, where it has written them. They go to `slot` as they are uploaded,
/// dense. Returns their checksum.
template <class Get>
std::uint64_t bring(const Bringing& how, std::uint64_t rows, std::byte* slot, const Get& get) {
  // Longer rows need not be copied from memory; shorter ones are worth a call together.
  constexpr std::size_t long_row = std::size_t{4} << 10;
  const std::size_t stored = how.columns * size_of(how.type), row = how.columns * how.element;
  const std::uint64_t words = whole_word_rows(row);
  const std::uint64_t few =
      words * std::max<std::uint64_t>(1, long_row / (words * std::max<std::size_t>(1, stored)));
  // A file's rows are read together, as its chunks and the system's calls want it.
  const std::uint64_t step = how.from_memory ? few : rows;
  std::uint64_t sum = 0;
  for (std::uint64_t first = 0; first < rows; first += step) {
    const Range some = intersection({first, step}, {0, rows});
    std::byte* const to = slot + first * row;
    sum += take(how, get(some, to), some.count * how.columns, to);
  }
  return sum;
}

/// Whether readers make panel elements of what is stored of A, or of B.
bool readers_round(const GemmOperands& operands, bool of_b, bool on_host);

/// What the readers bring of A and B, of each as much as it has of both, in bytes that are
/// uploaded, when nothing is: from their sources, or out of `sample` bytes of ordinary memory where
/// pipeline.mode is pageable. For about `seconds`, again and again from the beginning. Collective;
/// throws AgreedError when a matrix cannot be read.
measure::Ceiling panel_read(runtime::Runtime& runtime, const GemmOperands& operands,
                            const pipeline::Ring& staging, std::uint64_t sample, double seconds);

}  // namespace shardstream::workloads
