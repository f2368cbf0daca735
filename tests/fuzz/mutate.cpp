#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "fuzz/fuzz.hpp"

namespace shardstream::fuzz {
namespace {

constexpr std::array<std::uint64_t, 20> numbers = {
    0,          1,          2,          7,          8,          0x7f,       0x80,
    0xff,       0x100,      0x7fff,     0xffff,     0x10000,    0x7fffffff, 0x80000000,
    0xffffffff, 1ULL << 32, 1ULL << 40, 1ULL << 62, 1ULL << 63, UINT64_MAX};

/// A position that is mostly not zero, since files of HDF5 have many zeros.
std::size_t place(const std::string& bytes, Random& random) {
  std::size_t at = random.below(bytes.size());
  if (random.one_in(8)) return at;
  for (std::size_t steps = 0; bytes[at] == '\0' && steps < bytes.size(); ++steps) {
    at = (at + 1) % bytes.size();
  }
  const std::size_t back = random.below(4);  // zeros before it may belong to a number
  return at < back ? at : at - back;
}

void set_number(std::string& bytes, std::size_t at, Random& random) {
  constexpr std::array<std::size_t, 4> sizes = {1, 2, 4, 8};
  const std::size_t size = std::min(random.pick(sizes), bytes.size() - at);
  std::uint64_t value = 0;
  std::memcpy(&value, &bytes[at], size);
  if (random.one_in(3)) {
    value += random.below(33) - 16;
  } else if (random.one_in(2)) {
    value <<= random.below(8 * size);
  } else {
    value = random.pick(numbers);
  }
  std::memcpy(&bytes[at], &value, size);
}

void move_piece(std::string& bytes, std::size_t at, Random& random) {
  const std::size_t length = std::min<std::size_t>(1 + random.below(64), bytes.size() - at);
  const std::string piece = bytes.substr(at, length);
  switch (random.below(4)) {
    case 0:
      bytes.erase(at, length);
      break;
    case 1:
      bytes.insert(place(bytes, random), piece);
      break;
    case 2:
      bytes.replace(at, length, std::string(length, random.one_in(2) ? '\0' : '\xff'));
      break;
    default: {
      const std::size_t to = place(bytes, random);
      bytes.replace(to, std::min(length, bytes.size() - to), piece.substr(0, bytes.size() - to));
    }
  }
}

void mutate_once(std::string& bytes, Random& random) {
  const std::size_t at = place(bytes, random);
  const std::uint64_t kind = random.below(32);
  if (kind < 10) {
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
  } else if (kind < 16) {
    bytes[at] = static_cast<char>(random.below(256));
  } else if (kind < 26) {
    set_number(bytes, at, random);
  } else if (kind < 31) {
    move_piece(bytes, at, random);
  } else {
    bytes.resize(at);
  }
}

}  // namespace

void mutate(std::string& bytes, Random& random) {
  for (std::uint64_t left = 1 + random.below(random.one_in(4) ? 8 : 2); left > 0; --left) {
    if (bytes.empty()) bytes = "x";
    mutate_once(bytes, random);
  }
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace shardstream::fuzz
