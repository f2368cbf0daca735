// How all elements together, as one row in the order of storage, are divided into units and lanes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace shardstream::cells {

/// The division depends only on the number of elements. Few elements have small units, so that many
/// ranks have some. Units of many elements are larger, since each takes memory and time. A lane has
/// 256 elements of the smallest unit, so that a GPU has enough threads, and up to 1024 of larger
/// ones: with more, sums have larger errors; with fewer, joining takes longer.
struct RowUnits {
  std::uint64_t unit, lanes;

  static constexpr std::uint64_t smallest = std::uint64_t{1} << 16;  ///< units are multiples of it

  constexpr RowUnits(std::uint64_t its_unit, std::uint64_t its_lanes)
      : unit(its_unit), lanes(its_lanes) {}
  constexpr explicit RowUnits(std::uint64_t elements) {
    constexpr std::uint64_t enough_units = std::uint64_t{1} << 14, largest = std::uint64_t{1} << 20;
    constexpr std::uint64_t lane = 1024, fewest_lanes = 256;
    const std::uint64_t least = elements / enough_units + (elements % enough_units > 0 ? 1 : 0);
    unit = std::clamp(std::bit_ceil(least), smallest, largest);
    lanes = std::max(unit / lane, fewest_lanes);
  }
};

}  // namespace shardstream::cells
