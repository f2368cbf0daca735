// The work of readers: they copy rows of A and B into slots, as stored or rounded to panel
// elements, and compute checksums.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/shard.hpp"
#include "kernels/gemm/precision.hpp"
#include "workloads/product/data/operands.hpp"

namespace shardstream::workloads::product {

/// The rows that a reader copies, and how.
struct RowCopy {
  ElementType type;  ///< of the stored elements
  gemm::Precision precision;
  Backend backend;
  bool rounded;           ///< whether elements are converted to panel elements
  std::size_t at_once;    ///< bytes that one call of get() should return: bytes_at_once()
  std::uint64_t columns;  ///< number of elements of a row
  std::size_t element;    ///< bytes of an element as uploaded
};

/// A number of rows whose bytes are a multiple of 8, for rows of `row_bytes` bytes. Checksums of
/// such groups of rows can be added, since a checksum is a sum of words of 8 bytes.
constexpr std::uint64_t whole_word_rows(std::size_t row_bytes) {
  return row_bytes % 8 == 0 ? 1 : 8;
}

/// The number of rows that fill a slot of `slot` bytes, a multiple of whole_word_rows(row). A row
/// has `stored_row` bytes, and `row` bytes when it is uploaded. At least whole_word_rows(row),
/// which a slot must be able to hold.
constexpr std::uint64_t rows_per_piece(std::size_t slot, std::size_t stored_row, std::size_t row) {
  const std::uint64_t words = whole_word_rows(row);
  return words * std::max<std::uint64_t>(1, slot / std::max<std::size_t>(1, words * stored_row));
}

/// The number of bytes that a reader should take at once from the matrix, or from host memory if it
/// is `held` there. Long rows in host memory are taken one by one, since a single row is contiguous
/// and need not be copied. Bytes from the page cache are taken in steps that stay in a core's
/// cache until their checksum has been computed. Other reads take as much as possible, which saves
/// system calls and decoding of chunks.
std::size_t bytes_at_once(const io::Matrix& matrix, bool held);

/// Converts `count` stored elements at `from` to uploaded elements at `to`, and returns the
/// checksum of the uploaded ones. `from` may be equal to `to`.
std::uint64_t convert_elements(const RowCopy& copy, const std::byte* from, std::uint64_t count,
                               std::byte* to);

/// Copies `rows` rows to `slot`, dense, in the form in which they are uploaded, and returns their
/// checksum. It calls get(rows, to) for some rows at a time. get() returns the address of these
/// rows as stored, dense. This is their address in host memory, or `to` if get() has written them
/// there.
template <class Get>
std::uint64_t copy_rows(const RowCopy& copy, std::uint64_t rows, std::byte* slot, const Get& get) {
  const std::size_t stored = copy.columns * size_of(copy.type), row = copy.columns * copy.element;
  const std::uint64_t words = whole_word_rows(row);
  const std::uint64_t step =
      words * std::max<std::uint64_t>(1, copy.at_once / (words * std::max<std::size_t>(1, stored)));
  std::uint64_t sum = 0;
  for (std::uint64_t first = 0; first < rows; first += step) {
    const Range some = intersection({first, step}, {0, rows});
    std::byte* const to = slot + first * row;
    sum += convert_elements(copy, get(some, to), some.count * copy.columns, to);
  }
  return sum;
}

/// Whether readers convert the stored elements of A (or of B) to panel elements.
bool readers_round(const Operands& operands, gemm::Side side, Backend backend);

}  // namespace shardstream::workloads::product
