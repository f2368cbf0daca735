#include "workloads/product/engine/rectangle.hpp"

#include <cstring>

namespace shardstream::workloads::product {

const std::byte* stored_rows(const Rectangle& from, Range rows, std::byte* to) {
  const Range valid = intersection(rows, from.valid_rows);
  const std::size_t row = from.stored_row_bytes();
  const bool whole = valid.count == rows.count && from.valid_columns.count == from.columns.count;
  if (whole && from.held != nullptr) {
    if (const std::byte* const dense = from.held->dense(rows, from.columns)) return dense;
  }
  if (valid.count == 0 || from.valid_columns.count == 0) {
    std::memset(to, 0, rows.count * row);
    return to;
  }
  const std::size_t element = size_of(from.matrix->type());
  const std::size_t before = (from.valid_columns.first - from.columns.first) * element;
  const std::size_t after = row - before - from.valid_columns.count * element;
  const std::uint64_t above = valid.first - rows.first;
  std::byte* const first = to + above * row + before;
  if (!whole) {  // only the padding becomes zero, since most pieces have little of it
    std::memset(to, 0, above * row + before);
    for (std::uint64_t i = 1; i < valid.count; ++i) {
      std::memset(first + i * row - before - after, 0, before + after);
    }
    std::memset(first + valid.count * row - before - after, 0,
                after + (rows.count - above - valid.count) * row);
  }
  from.held != nullptr ? from.held->read(valid, from.valid_columns, first, row)
                       : from.matrix->read(valid, from.valid_columns, first, row);
  return to;
}

}  // namespace shardstream::workloads::product
