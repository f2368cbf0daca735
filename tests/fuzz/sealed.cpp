#include "fuzz/sealed.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace shardstream::fuzz {
namespace {

using namespace std::string_view_literals;

constexpr std::array signatures = {"\211HDF\r\n\032\n"sv,
                                   "OHDR"sv,
                                   "OCHK"sv,
                                   "BTHD"sv,
                                   "BTIN"sv,
                                   "BTLF"sv,
                                   "FRHP"sv,
                                   "FHDB"sv,
                                   "FHIB"sv,
                                   "FSHD"sv,
                                   "FSSE"sv,
                                   "FAHD"sv,
                                   "FADB"sv,
                                   "EAHD"sv,
                                   "EAIB"sv,
                                   "EASB"sv,
                                   "EADB"sv,
                                   "SMTB"sv,
                                   "SMLI"sv};
constexpr std::size_t max_length = 4096, checksum_bytes = 4;

/// Bob Jenkins' lookup3 (hashlittle), with which HDF5 seals its blocks.
std::uint32_t lookup3(std::string_view bytes) {
  const auto length = static_cast<std::uint32_t>(bytes.size());
  std::uint32_t a = 0xdeadbeef + length, b = a, c = a;
  const auto rotl = [](std::uint32_t x, int k) { return std::rotl(x, k); };
  const auto add = [&](std::string_view block) {
    std::uint32_t words[3] = {};
    std::memcpy(words, block.data(), block.size());  // little-endian, as HDF5's own tests assume
    a += words[0], b += words[1], c += words[2];
  };
  while (bytes.size() > 12) {
    add(bytes.substr(0, 12));
    a -= c, a ^= rotl(c, 4), c += b;
    b -= a, b ^= rotl(a, 6), a += c;
    c -= b, c ^= rotl(b, 8), b += a;
    a -= c, a ^= rotl(c, 16), c += b;
    b -= a, b ^= rotl(a, 19), a += c;
    c -= b, c ^= rotl(b, 4), b += a;
    bytes.remove_prefix(12);
  }
  if (bytes.empty()) return c;
  add(bytes);
  c ^= b, c -= rotl(b, 14);
  a ^= c, a -= rotl(c, 11);
  b ^= a, b -= rotl(a, 25);
  c ^= b, c -= rotl(b, 16);
  a ^= c, a -= rotl(c, 4);
  b ^= a, b -= rotl(a, 14);
  c ^= b, c -= rotl(b, 24);
  return c;
}

std::uint32_t stored(const std::string& bytes, std::size_t at) {
  std::uint32_t checksum = 0;
  std::memcpy(&checksum, &bytes[at], checksum_bytes);
  return checksum;
}

}  // namespace

std::vector<Sealed> sealed_blocks(const std::string& bytes) {
  std::vector<Sealed> blocks;
  for (const std::string_view signature : signatures) {
    for (auto at = bytes.find(signature); at != bytes.npos; at = bytes.find(signature, at + 1)) {
      const std::string_view rest = std::string_view(bytes).substr(at);
      for (std::size_t length = signature.size();
           length + checksum_bytes <= std::min(rest.size(), max_length); ++length) {
        if (lookup3(rest.substr(0, length)) != stored(bytes, at + length)) continue;
        blocks.push_back({at, length});
        break;
      }
    }
  }
  return blocks;
}

void seal(std::string& bytes, const std::vector<Sealed>& blocks) {
  for (const Sealed& block : blocks) {
    if (block.begin + block.length + checksum_bytes > bytes.size()) continue;
    const std::uint32_t checksum =
        lookup3(std::string_view(bytes).substr(block.begin, block.length));
    std::memcpy(&bytes[block.begin + block.length], &checksum, checksum_bytes);
  }
}

}  // namespace shardstream::fuzz
