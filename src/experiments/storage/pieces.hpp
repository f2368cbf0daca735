// The pieces of a data set, and the check that all reads of a piece find the same bytes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace shardstream::experiments::storage {

inline constexpr std::uint64_t piece_bytes = std::uint64_t{4} << 20;

/// A number that depends on 64 words, evenly spread over the data; never 0.
inline std::uint64_t signature_of(const std::byte* data, std::uint64_t bytes) {
  constexpr std::uint64_t words = 64, prime = 0x100000001b3;
  std::uint64_t mixed = bytes;
  for (std::uint64_t i = 0; i < words; ++i) {
    const std::uint64_t at = bytes * i / words;
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, std::min<std::uint64_t>(sizeof word, bytes - at));
    mixed = (mixed ^ word ^ (word >> 32)) * prime;
  }
  return mixed | 1;
}

/// The signature of each piece of the data at its first read. Threads may call note() at the same
/// time for different pieces.
class Pieces {
 public:
  explicit Pieces(std::uint64_t bytes) : bytes_(bytes), seen_((bytes - 1) / piece_bytes + 1) {}

  std::uint64_t count() const { return seen_.size(); }
  std::uint64_t bytes_of(std::uint64_t piece) const {
    return std::min(piece_bytes, bytes_ - piece * piece_bytes);
  }
  void note(std::uint64_t piece, const std::byte* data) {
    const std::uint64_t now = signature_of(data, bytes_of(piece));
    if (seen_[piece] == 0) seen_[piece] = now;
    if (seen_[piece] != now) differ_ = true;
  }
  /// Whether all reads of the same piece had the same signature.
  bool agree() const { return !differ_; }

 private:
  std::uint64_t bytes_;
  std::vector<std::uint64_t> seen_;
  std::atomic<bool> differ_ = false;
};

}  // namespace shardstream::experiments::storage
