// How work is cut: arithmetic on ranges of indices, in 64 bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace shardstream {

/// The indices [first, first + count).
struct Range {
  std::uint64_t first = 0, count = 0;

  constexpr std::uint64_t end() const { return first + count; }
  bool operator==(const Range&) const = default;
};

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b != 0);
}

/// a * b, or the largest number where that is too large for one.
constexpr std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) {
  return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/// The product of all factors, or the largest number where that is too large for one.
constexpr std::uint64_t saturating_product(std::span<const std::uint64_t> factors) {
  std::uint64_t product = 1;
  for (const std::uint64_t factor : factors) product = saturating_product(product, factor);
  return product;
}

/// Bytes up to the next multiple of 256, where other memory of a device can begin; the largest
/// number where that is too large for one.
constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return saturating_product(ceil_div(bytes, 256), 256);
}

/// Part `part` of `parts` of `count` items: contiguous, in order; the remainder is spread one by
/// one over the first parts. A part is empty when there are more parts than items.
constexpr Range share(std::uint64_t count, std::uint64_t part, std::uint64_t parts) {
  const std::uint64_t each = count / parts, more = count % parts;
  return {part * each + std::min(part, more), each + (part < more ? 1 : 0)};
}

/// A rank's part of `elements`: whole units of `unit` elements but for the very last one.
constexpr Range shard(std::uint64_t elements, std::uint64_t unit, std::uint64_t rank,
                      std::uint64_t ranks) {
  const Range units = share(ceil_div(elements, unit), rank, ranks);
  const std::uint64_t first = std::min(units.first * unit, elements);
  return {first, std::min(units.end() * unit, elements) - first};
}

/// What `a` and `b` have in common; its count is 0 when they do not meet.
constexpr Range intersection(Range a, Range b) {
  const std::uint64_t first = std::max(a.first, b.first);
  const std::uint64_t end = std::min(a.end(), b.end());
  return {first, end > first ? end - first : 0};
}

}  // namespace shardstream
