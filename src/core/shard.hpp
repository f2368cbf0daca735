// The division of work into parts: arithmetic on ranges of indices, in 64 bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
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

/// a * b, or UINT64_MAX on overflow.
constexpr std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) {
  return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/// The product of all factors; UINT64_MAX on overflow.
constexpr std::uint64_t saturating_product(std::span<const std::uint64_t> factors) {
  std::uint64_t product = 1;
  for (const std::uint64_t factor : factors) product = saturating_product(product, factor);
  return product;
}

constexpr std::uint64_t saturating_product(std::initializer_list<std::uint64_t> factors) {
  return saturating_product(std::span(factors.begin(), factors.size()));
}

/// The sum of all terms; UINT64_MAX on overflow.
constexpr std::uint64_t saturating_sum(std::initializer_list<std::uint64_t> terms) {
  std::uint64_t sum = 0;
  for (const std::uint64_t term : terms) sum = term > UINT64_MAX - sum ? UINT64_MAX : sum + term;
  return sum;
}

/// `bytes` rounded up to the alignment of device memory, a multiple of 256; UINT64_MAX on overflow.
constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return saturating_product(ceil_div(bytes, 256), 256);
}

/// The items of part `part` if `count` items are divided into `parts` contiguous parts. The first
/// parts get one of the remaining items each. A part is empty if there are more parts than items.
constexpr Range share(std::uint64_t count, std::uint64_t part, std::uint64_t parts) {
  const std::uint64_t each = count / parts, more = count % parts;
  return {part * each + std::min(part, more), each + (part < more ? 1 : 0)};
}

/// The part of `elements` that a rank gets: whole units of `unit` elements. Only the very last unit
/// may be smaller.
constexpr Range shard(std::uint64_t elements, std::uint64_t unit, std::uint64_t rank,
                      std::uint64_t ranks) {
  const Range units = share(ceil_div(elements, unit), rank, ranks);
  const std::uint64_t first = std::min(units.first * unit, elements);
  return {first, std::min(units.end() * unit, elements) - first};
}

/// The indices in both `a` and `b`; its count is 0 if they are disjoint.
constexpr Range intersection(Range a, Range b) {
  const std::uint64_t first = std::max(a.first, b.first);
  const std::uint64_t end = std::min(a.end(), b.end());
  return {first, end > first ? end - first : 0};
}

}  // namespace shardstream
