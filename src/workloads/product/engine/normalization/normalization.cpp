#include "workloads/product/engine/normalization/normalization.hpp"

#include <cmath>
#include <limits>

#include "kernels/gemm/panel/shifted.hpp"

namespace shardstream::workloads::product {
namespace {

/// The integer nearest to x, limited to those of 64 bits.
std::int64_t nearest_integer(double x) {
  using Limits = std::numeric_limits<std::int64_t>;
  const double near = std::nearbyint(x);
  if (near >= 0x1p63) return Limits::max();
  return near >= -0x1p63 ? static_cast<std::int64_t>(near) : Limits::min();
}

}  // namespace

Shift shift_of(const Normalization& normalization, std::uint64_t variable) {
  if (normalization.shift.empty()) return {};
  return {normalization.whole.empty() ? 0 : normalization.whole[variable],
          normalization.shift[variable]};
}

Shift integer_shift(std::int64_t origin, double by) {
  const std::int64_t whole_by = nearest_integer(by);
  std::int64_t whole = 0;
  if (__builtin_add_overflow(origin, whole_by, &whole)) {
    whole = by > 0 ? std::numeric_limits<std::int64_t>::max()
                   : std::numeric_limits<std::int64_t>::min();
  }
  return {whole, by - gemm::difference(whole, origin)};
}

Shift moved(const Shift& from, double by, bool integers) {
  if (!integers) return {0, from.part + by};
  constexpr std::int64_t exact = std::int64_t{1} << 53;
  if (-exact <= from.whole && from.whole <= exact) {
    return integer_shift(0, (static_cast<double>(from.whole) + from.part) + by);
  }
  return integer_shift(from.whole, from.part + by);
}

}  // namespace shardstream::workloads::product
