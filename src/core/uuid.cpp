#include "core/uuid.hpp"

#include <fmt/format.h>

#include <array>
#include <random>

namespace shardstream {

std::string random_uuid() {
  std::random_device random;
  std::array<unsigned, 4> words{};
  for (auto& word : words) word = random();
  words[1] = (words[1] & 0xffff0fffU) | 0x4000U;      // version 4: random
  words[2] = (words[2] & 0x3fffffffU) | 0x80000000U;  // the variant of RFC 4122
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:04x}{:08x}", words[0], words[1] >> 16,
                     words[1] & 0xffffU, words[2] >> 16, words[2] & 0xffffU, words[3]);
}

}  // namespace shardstream
