#include "workloads/product/data/pair_counts.hpp"

#include <algorithm>

namespace shardstream::workloads::product {
namespace {

template <class T>
PairCounts counts_in(const T* counts, std::uint64_t row, Range columns, bool on_diagonal) {
  PairCounts found;
  for (std::uint64_t i = 0; i < columns.count; ++i) {
    const auto count = static_cast<std::uint64_t>(counts[i]);
    const std::uint64_t column = columns.first + i;
    found.max = std::max(found.max, count);
    if (count > 0) {
      found.min = std::min(found.min, count);
    } else if (row == column) {
      found.empty += 1;
    } else if (!on_diagonal || row < column) {
      found.without_samples += 1;
    }
  }
  return found;
}

}  // namespace

void PairCounts::add(const PairCounts& other) {
  weighted += other.weighted;
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  without_samples += other.without_samples;
  empty += other.empty;
}

std::uint64_t count_at(ElementType type, const std::byte* counts, std::uint64_t index) {
  return static_cast<std::uint64_t>(type == ElementType::i64
                                        ? reinterpret_cast<const std::int64_t*>(counts)[index]
                                        : reinterpret_cast<const std::int32_t*>(counts)[index]);
}

PairCounts counts_of_row(ElementType type, const std::byte* counts, std::uint64_t row,
                         Range columns, bool on_diagonal) {
  if (type == ElementType::i64) {
    return counts_in(reinterpret_cast<const std::int64_t*>(counts), row, columns, on_diagonal);
  }
  return counts_in(reinterpret_cast<const std::int32_t*>(counts), row, columns, on_diagonal);
}

}  // namespace shardstream::workloads::product
