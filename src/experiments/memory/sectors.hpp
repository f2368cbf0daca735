// The sectors that a warp touches. Memory moves whole sectors of 32 bytes, including the bytes that
// no lane needs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "experiments/warp_size.hpp"

namespace shardstream::experiments::memory {

constexpr std::uint64_t sector = 32;  // bytes

/// One load or store of a warp.
struct Access {
  std::uint64_t asked = 0;  ///< bytes that the active lanes ask for; a shared word counts for each
  std::uint64_t sectors = 0;  ///< sectors in which at least one of these bytes lies
  std::uint64_t partial = 0;  ///< those of which other bytes are not asked for

  /// Bytes that memory moves for this warp, if no cache already has one of its sectors.
  std::uint64_t moved() const { return sectors * sector; }
  /// The load or store efficiency: the bytes asked for over the bytes moved (CUDA C++ Best
  /// Practices Guide, section Throughput Reported by Visual Profiler). Above 1 if lanes share
  /// words.
  double efficiency() const { return static_cast<double>(asked) / static_cast<double>(moved()); }
};

/// The access of the active lanes to words of `word` bytes that begin at these addresses, in bytes
/// from the beginning of a sector. Words are equal or do not overlap.
inline Access access_of(const std::vector<std::uint64_t>& addresses, std::uint64_t word) {
  std::vector<std::uint64_t> different = addresses;
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  std::vector<std::uint64_t> touched;  // the sector of each byte
  for (const std::uint64_t address : different) {
    for (std::uint64_t byte = 0; byte < word; ++byte) touched.push_back((address + byte) / sector);
  }
  Access access{addresses.size() * word};
  for (auto first = touched.begin(); first != touched.end();) {
    const auto end = std::upper_bound(first, touched.end(), *first);
    ++access.sectors;
    if (static_cast<std::uint64_t>(end - first) < sector) ++access.partial;
    first = end;
  }
  return access;
}

/// The access of a whole warp. `address(lane)` is the first byte of the word of a lane.
template <class AddressOfLane>
Access access_of_warp(const AddressOfLane& address, std::uint64_t word) {
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t lane = 0; lane < warp; ++lane) addresses.push_back(address(lane));
  return access_of(addresses, word);
}

/// The rate of a copy with this load efficiency over that of a copy of whole sectors, if memory is
/// the limit; rates count the bytes asked for. A load moves whole sectors. A store of a part of a
/// sector moves it twice: memory has to read the rest of the sector before it writes it.
constexpr double share_of_copy(double efficiency) {
  return efficiency < 1 ? efficiency * 2 / 3 : 1;
}

}  // namespace shardstream::experiments::memory
