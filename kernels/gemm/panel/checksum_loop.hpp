// The loop of word_checksum(), to be inlined into vector clones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardstream::gemm::detail {

using Words [[gnu::vector_size(32)]] = std::uint64_t;

[[gnu::always_inline]] inline std::uint64_t sum_all_words(const std::byte* data,
                                                          std::uint64_t bytes) {
  constexpr unsigned flight = 4;  // vectors added at a time
  Words sums[flight] = {};
  std::uint64_t at = 0;
  for (; at + sizeof(sums) <= bytes; at += sizeof(sums)) {
    for (unsigned i = 0; i < flight; ++i) {
      Words words;
      std::memcpy(&words, data + at + i * sizeof(words), sizeof(words));
      sums[i] += words;
    }
  }
  std::uint64_t sum = 0;
  for (const Words& four : sums) sum += four[0] + four[1] + four[2] + four[3];
  for (; at < bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, std::min<std::uint64_t>(8, bytes - at));
    sum += word;
  }
  return sum;
}

}  // namespace shardstream::gemm::detail
