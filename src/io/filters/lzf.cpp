#include "io/filters/lzf.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "core/error.hpp"

namespace shardstream::io {
namespace {

// A stream is a sequence of tokens. A first byte below 32 announces that many literal bytes, plus
// one. Any other first byte has a length in its upper three bits (7: add the next byte) and the
// upper five bits of a distance, whose lower eight bits follow: length + 2 decoded bytes are
// repeated, from distance + 1 bytes before the end of the decoded bytes.

/// Reads the tokens of a stream, whose end it checks.
class Tokens {
 public:
  struct Token {
    const std::byte* literal;  ///< null: a repetition
    std::size_t distance;      ///< of a repetition, at least 1
    std::size_t length;
  };

  explicit Tokens(std::span<const std::byte> stream)
      : next_(stream.data()), end_(stream.data() + stream.size()) {}

  bool at_end() const { return next_ == end_; }

  Token read() {
    const unsigned first = byte();
    if (first < 32) {
      const std::size_t length = first + 1;
      if (length > left()) fail();
      return {std::exchange(next_, next_ + length), 0, length};
    }
    std::size_t length = first >> 5;
    if (length == 7) length += byte();
    const std::size_t distance = (first & 31U) << 8 | byte();
    return {nullptr, distance + 1, length + 2};
  }

 private:
  std::size_t left() const { return static_cast<std::size_t>(end_ - next_); }

  unsigned byte() {
    if (at_end()) fail();
    return std::to_integer<unsigned>(*next_++);
  }

  [[noreturn]] static void fail() {
    throw Error("its lzf stream is damaged: it ends in the middle of a token");
  }

  const std::byte* next_;
  const std::byte* end_;
};

/// Copies `length` bytes from `distance` bytes before `out`. The copy repeats itself if the ranges
/// overlap.
void repeat(std::byte* out, std::size_t distance, std::size_t length) {
  const std::byte* const from = out - distance;
  if (distance >= length) {
    std::memcpy(out, from, length);
  } else {
    for (std::size_t i = 0; i < length; ++i) out[i] = from[i];
  }
}

}  // namespace

std::uint64_t decoded_bytes_of_lzf(std::span<const std::byte> stream) {
  std::uint64_t bytes = 0;
  for (Tokens tokens(stream); !tokens.at_end();) bytes += tokens.read().length;
  return bytes;
}

void decode_lzf(std::span<const std::byte> stream, std::byte* out, std::uint64_t bytes) {
  std::uint64_t done = 0;
  for (Tokens tokens(stream); !tokens.at_end();) {
    const auto [literal, distance, length] = tokens.read();
    if (length > bytes - done) {
      throw Error(fmt::format("its lzf stream is damaged: it goes on beyond byte {}", bytes));
    }
    if (literal != nullptr) {
      std::memcpy(out + done, literal, length);
    } else if (distance <= done) {
      repeat(out + done, distance, length);
    } else {
      throw Error("its lzf stream is damaged: it repeats bytes from before its beginning");
    }
    done += length;
  }
  if (done < bytes) {
    throw Error(fmt::format("its lzf stream is damaged: it ends before byte {}", bytes));
  }
}

}  // namespace shardstream::io
