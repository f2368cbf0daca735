// The first samples of the data, which determine shifts and scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/shard.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/engine/normalization/normalization.hpp"
#include "workloads/product/engine/normalization/samples.hpp"

namespace shardstream::workloads::product {

/// The number of samples that determine shifts and scales: the first of those that count, or all of
/// them if there are fewer. It does not depend on ranks or memory, so C's bits do not depend on
/// them either. A variable of a pairwise product that has no value in them is normalized by the
/// next group of as many samples in which it has values, among the first `max_groups` groups.
inline constexpr std::uint64_t first_samples = 256, max_groups = 16;

class FirstSamples {
 public:
  /// The first of `all` samples that count, from sample `begin` on.
  FirstSamples(const Samples& samples, std::uint64_t all, std::uint64_t begin = 0);

  std::uint64_t count() const { return count_; }
  /// Their shifts; empty unless samples have shifts.
  std::span<const Shift> shifts() const { return shifts_; }
  /// These samples of some variables as they are stored: variable by variable if variables are
  /// rows, else sample by sample. Thread-safe. Throws what the matrix throws.
  std::vector<std::byte> read(const Operands& operands, Range variables) const;

 private:
  std::vector<Range> runs_;  ///< of adjacent samples, in ascending order
  std::uint64_t count_ = 0;
  std::vector<Shift> shifts_;
};

/// Whether a value is missing, which means NaN.
bool any_missing(ElementType type, std::span<const std::byte> stored);

}  // namespace shardstream::workloads::product
