// The sectors that a warp touches. Memory moves whole sectors of 32 bytes, including the bytes that
// no lane needs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shardstream::experiments::memory {

constexpr std::uint64_t sector = 32;  // bytes
constexpr std::uint64_t lanes_of_warp = 32;

/// One load or store of a warp.
struct Access {
  std::uint64_t asked = 0;  ///< bytes that the active lanes ask for; a shared word counts for each
  std::uint64_t sectors = 0;  ///< sectors in which at least one of these bytes lies

  /// Bytes that memory moves for this warp, if no cache already has one of its sectors.
  std::uint64_t moved() const { return sectors * sector; }
  /// The load or store efficiency: the bytes asked for over the bytes moved (CUDA C++ Best
  /// Practices Guide, section Throughput Reported by Visual Profiler). Above 1 if lanes share
  /// words.
  double efficiency() const { return static_cast<double>(asked) / static_cast<double>(moved()); }
};

/// The access of the active lanes to words of `word` bytes that begin at these addresses, in bytes
/// from the beginning of a sector.
inline Access access_of(const std::vector<std::uint64_t>& addresses, std::uint64_t word) {
  std::vector<std::uint64_t> touched;
  for (const std::uint64_t address : addresses) {
    const std::uint64_t last = (address + word - 1) / sector;
    for (std::uint64_t each = address / sector; each <= last; ++each) touched.push_back(each);
  }
  std::sort(touched.begin(), touched.end());
  const auto end = std::unique(touched.begin(), touched.end());
  return {addresses.size() * word, static_cast<std::uint64_t>(end - touched.begin())};
}

/// The access of a whole warp. `address(lane)` is the first byte of the word of a lane.
template <class AddressOfLane>
Access access_of_warp(const AddressOfLane& address, std::uint64_t word) {
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t lane = 0; lane < lanes_of_warp; ++lane) addresses.push_back(address(lane));
  return access_of(addresses, word);
}

}  // namespace shardstream::experiments::memory
