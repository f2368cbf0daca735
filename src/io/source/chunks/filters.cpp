#include "io/source/chunks/filters.hpp"

#include <fmt/format.h>
#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "core/error.hpp"
#include "io/filters/lzf.hpp"

namespace shardstream::io {
namespace {

constexpr std::uint64_t checksum_bytes = 4;

bool compresses(Filter::Kind kind) {
  return kind == Filter::Kind::deflate || kind == Filter::Kind::lzf;
}

/// Byte b of element i is in[b * count + i]. The number of bytes is a constant, so that a compiler
/// vectorises the loops.
template <std::size_t element>
void unshuffle_elements(const std::byte* __restrict in, std::uint64_t count,
                        std::byte* __restrict out) {
  for (std::uint64_t i = 0; i < count; ++i) {
    for (std::size_t byte = 0; byte < element; ++byte) {
      out[i * element + byte] = in[byte * count + i];
    }
  }
}

void inflate(std::span<const std::byte> in, std::byte* out, std::uint64_t bytes,
             const DecodingRoom& room) {
  switch (
      libdeflate_zlib_decompress(room.decompressor(), in.data(), in.size(), out, bytes, nullptr)) {
    case LIBDEFLATE_SUCCESS:
      return;
    case LIBDEFLATE_SHORT_OUTPUT:
      throw Error(fmt::format("its deflate stream is damaged: it ends before byte {}", bytes));
    case LIBDEFLATE_INSUFFICIENT_SPACE:
      throw Error(fmt::format("its deflate stream is damaged: it goes on beyond byte {}", bytes));
    default:
      throw Error("its deflate stream is damaged");
  }
}

/// Returns the data before the checksum. Throws Error if the checksum differs. Accepts, as HDF5
/// does, the byte order of HDF5 1.6.2 and older on little-endian machines, which swapped the bytes
/// in both halves of the checksum.
std::span<const std::byte> checked(std::span<const std::byte> stored) {
  if (stored.size() < checksum_bytes) throw Error("it is too short for its fletcher32 checksum");
  const auto data = stored.first(stored.size() - checksum_bytes);
  std::uint32_t expected = 0;
  for (std::size_t i = 0; i < checksum_bytes; ++i) {
    expected |= std::to_integer<std::uint32_t>(stored[data.size() + i]) << (8 * i);
  }
  const std::uint32_t found = fletcher32(data);
  const std::uint32_t old = (found & 0x00ff00ffU) << 8 | (found >> 8 & 0x00ff00ffU);
  if (expected == found || expected == old) return data;
  throw Error(
      fmt::format("its fletcher32 checksum is {:08x}, but its bytes have {:08x}", expected, found));
}

}  // namespace

DecodingRoom::DecodingRoom() : decompressor_(libdeflate_alloc_decompressor()) {
  if (decompressor_ == nullptr) throw std::bad_alloc();
}

DecodingRoom::~DecodingRoom() {
  libdeflate_free_decompressor(decompressor_);
}

std::byte* DecodingRoom::bytes(std::size_t place, std::uint64_t bytes) {
  auto& buffer = buffers_.at(place);
  if (!buffer || buffer->bytes < bytes) {
    buffer.reset();
    const std::uint64_t room = DirectFile::room(bytes);
    buffer.emplace(AlignedBytes(DirectFile::block(), room), room);
  }
  return buffer->data.data();
}

std::optional<ChunkFilters> ChunkFilters::of(std::span<const Filter> filters) {
  using Kind = Filter::Kind;
  const auto is_known = [](const Filter& each) {
    return each.kind != Kind::other && (each.kind != Kind::shuffle || each.element > 0);
  };
  // Between two filters that compress, the size of the data would be unknown.
  if (!std::ranges::all_of(filters, is_known) ||
      std::ranges::count_if(filters, compresses, &Filter::kind) > 1) {
    return std::nullopt;
  }
  ChunkFilters known;
  known.filters_.assign(filters.begin(), filters.end());
  return known;
}

bool ChunkFilters::skips_all(std::uint32_t mask) const {
  for (std::size_t i = 0; i < filters_.size(); ++i) {
    if ((mask >> i & 1U) == 0) return false;
  }
  return true;
}

void ChunkFilters::decode(std::span<const std::byte> stored, std::uint32_t mask, std::byte* out,
                          std::uint64_t bytes, DecodingRoom& room) const {
  // Checksums that the data still contains: later shuffling and compressing filters treat them as
  // data.
  std::uint64_t checksums = 0;
  std::vector<const Filter*> remaining;  // reversed from the last one to the first
  for (std::size_t i = 0; i < filters_.size(); ++i) {
    if ((mask >> i & 1U) != 0) continue;
    remaining.push_back(&filters_[i]);
    if (filters_[i].kind == Filter::Kind::fletcher32) ++checksums;
  }
  std::span<const std::byte> data = stored;
  for (std::size_t step = 0; !remaining.empty(); ++step) {
    const Filter& filter = *remaining.back();
    remaining.pop_back();
    if (filter.kind == Filter::Kind::fletcher32) {
      data = checked(data);
      --checksums;
      continue;
    }
    const std::uint64_t size =
        compresses(filter.kind) ? bytes + checksums * checksum_bytes : data.size();
    const bool is_last = size == bytes && std::ranges::all_of(remaining, [](const Filter* each) {
                           return each->kind == Filter::Kind::fletcher32;
                         });
    std::byte* const to = is_last ? out : room.bytes(step % 2, size);
    if (filter.kind == Filter::Kind::deflate) {
      inflate(data, to, size, room);
    } else if (filter.kind == Filter::Kind::lzf) {
      decode_lzf(data, to, size);
    } else {
      unshuffle(data, filter.element, to);
    }
    data = {to, size};
  }
  if (data.size() != bytes) {
    throw Error(fmt::format("it has {} bytes instead of {}", data.size(), bytes));
  }
  if (data.data() != out) std::memcpy(out, data.data(), bytes);
}

std::uint32_t fletcher32(std::span<const std::byte> data) {
  // The data is n big-endian 16-bit words w[i]. The checksum holds two sums modulo 65535: the sum
  // of w[i] * (n - i) in its upper half and the sum of w[i] in its lower half. A sum that is a
  // multiple of 65535 is stored as 65535, unless all words are 0. Lane k adds the words k, k + 16,
  // k + 32, ...
  constexpr std::uint64_t modulus = 65'535, lanes = 16, rows = 256;  // lanes stay below 2^32
  std::uint64_t sum = 0, weighted = 0;
  bool all_zero = true;
  const auto add_word = [&](std::uint64_t word) {
    all_zero = all_zero && word == 0;
    sum = (sum + word) % modulus;
    weighted = (weighted + sum) % modulus;
  };
  const std::byte* from = data.data();
  std::uint64_t words = data.size() / 2;
  for (; words >= lanes * rows; words -= lanes * rows, from += 2 * lanes * rows) {
    std::array<std::uint32_t, lanes> plain{}, running{};
    for (std::uint64_t row = 0; row < rows; ++row) {
      std::array<std::uint16_t, lanes> line;
      std::memcpy(line.data(), from + row * sizeof line, sizeof line);
      for (std::uint64_t lane = 0; lane < lanes; ++lane) {
        plain[lane] += static_cast<std::uint16_t>(line[lane] << 8 | line[lane] >> 8);
        running[lane] += plain[lane];
      }
    }
    weighted += sum * (lanes * rows);
    for (std::uint64_t lane = 0; lane < lanes; ++lane) {
      all_zero = all_zero && plain[lane] == 0;
      sum += plain[lane];
      weighted += lanes * std::uint64_t{running[lane]} - lane * plain[lane];
    }
    sum %= modulus;
    weighted %= modulus;
  }
  const auto value = [&](std::uint64_t i) { return std::to_integer<std::uint64_t>(from[i]); };
  for (std::uint64_t i = 0; i < words; ++i) add_word(value(2 * i) << 8 | value(2 * i + 1));
  if (data.size() % 2 != 0) add_word(value(2 * words) << 8);
  if (all_zero) return 0;
  const auto folded = [](std::uint64_t rest) {
    return static_cast<std::uint32_t>(rest == 0 ? modulus : rest);
  };
  return folded(weighted) << 16 | folded(sum);
}

void unshuffle(std::span<const std::byte> in, std::uint64_t element, std::byte* out) {
  const std::uint64_t count = in.size() / element;
  if (element == 1 || count <= 1) {
    std::ranges::copy(in, out);
    return;
  }
  switch (element) {
    case 2:
      unshuffle_elements<2>(in.data(), count, out);
      break;
    case 4:
      unshuffle_elements<4>(in.data(), count, out);
      break;
    case 8:
      unshuffle_elements<8>(in.data(), count, out);
      break;
    default:
      for (std::uint64_t i = 0; i < count; ++i) {
        for (std::uint64_t byte = 0; byte < element; ++byte) {
          out[i * element + byte] = in[byte * count + i];
        }
      }
  }
  std::ranges::copy(in.subspan(count * element), out + count * element);
}

}  // namespace shardstream::io
