// Loops over data in host memory, to be inlined into vector clones: word_checksum(), and prefetches
// for readers, of the elements that they read and of the slots that they fill.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardstream::gemm::detail {

/// Prefetches the elements that come 4 KiB after from[first] to from[first + some - 1], if they are
/// among the `count` elements. The hardware's prefetches end with each page, and a busy core then
/// waits.
template <class T>
[[gnu::always_inline]] inline void fetch_ahead(const T* from, std::uint64_t first,
                                               std::uint64_t some, std::uint64_t count) {
  constexpr std::uint64_t ahead = 4096 / sizeof(T), line = 64 / sizeof(T);
  const std::uint64_t end = std::min(count, first + ahead + some);
  for (std::uint64_t i = first + ahead; i < end; i += line) __builtin_prefetch(from + i);
}

/// Prefetches the bytes that come 1 KiB after to[at] to to[at + some - 1], if they are among the
/// `bytes` bytes, for writing. After the link has read a slot, each store to it would wait for its
/// line.
[[gnu::always_inline]] inline void claim_ahead(std::byte* to, std::uint64_t at, std::uint64_t some,
                                               std::uint64_t bytes) {
  constexpr std::uint64_t ahead = 1024, line = 64;
  const std::uint64_t end = std::min(bytes, at + ahead + some);
  for (std::uint64_t i = at + ahead; i < end; i += line) __builtin_prefetch(to + i, 1);
}

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
