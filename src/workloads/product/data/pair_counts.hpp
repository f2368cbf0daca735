// The numbers of samples of the pairs of variables in a tile of a pairwise product: a part of the
// matrix N (kernels/gemm/moments.hpp), and what is known about it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/shard.hpp"
#include "types/element.hpp"

namespace shardstream::workloads::product {

/// A summary of the counts of a result. Sums of this type belong to any set of tiles.
struct PairCounts {
  std::uint64_t weighted = 0;         ///< the part of N's checksum: RowChecksums::matrix_checksum()
  std::uint64_t min = UINT64_MAX;     ///< the smallest count above 0; UINT64_MAX if there is none
  std::uint64_t max = 0;              ///< the largest count
  std::uint64_t without_samples = 0;  ///< number of pairs of two variables with the count 0
  std::uint64_t empty = 0;            ///< number of variables without a value

  /// Adds other tiles.
  void add(const PairCounts& other);

  bool operator==(const PairCounts&) const = default;
};

/// The type of counts beside a C of this type, f32 or f64: it has as many bytes.
constexpr ElementType count_type(ElementType of_c) {
  return of_c == ElementType::f64 ? ElementType::i64 : ElementType::i32;
}

/// Element `index` of a row of counts.
std::uint64_t count_at(ElementType type, const std::byte* counts, std::uint64_t index);

/// Counts pairs in a row of N. `row` and `columns` are places in N. `on_diagonal`: the tile is on
/// N's diagonal, so that it has each pair twice. The checksum stays 0.
PairCounts counts_of_row(ElementType type, const std::byte* counts, std::uint64_t row,
                         Range columns, bool on_diagonal);

}  // namespace shardstream::workloads::product
