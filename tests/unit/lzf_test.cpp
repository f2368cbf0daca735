// The decoder of h5py's filter lzf: streams of every kind of token, damaged streams, and data sets
// that readers and HDF5 decode to the same bits.
#include "io/filters/lzf.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "core/error.hpp"
#include "io/hdf5/lzf.hpp"
#include "io/source/dataset/planned_source.hpp"
#include "kernels/data/generate.hpp"
#include "support/errors.hpp"
#include "support/hdf5_inputs.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::io {
namespace {

using test::error_of;
using test::names;
using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

Bytes bytes_of(std::string_view text) {
  const auto* const data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

/// Decodes to memory of exactly `bytes` bytes, so that sanitizers find any overrun.
Bytes decode(const Bytes& stream, std::size_t bytes) {
  Bytes out(bytes);
  decode_lzf(stream, out.data(), bytes);
  return out;
}

/// A simple encoder: the longest repetition of the last place with the same three bytes.
Bytes encode(const Bytes& in) {
  Bytes out;
  std::map<Bytes, std::size_t> last;
  std::size_t literals = 0;  // before `at`
  const auto put = [&](std::size_t value) { out.push_back(static_cast<std::byte>(value)); };
  const auto flush = [&](std::size_t at) {
    for (; literals > 0; literals -= std::min<std::size_t>(literals, 32)) {
      const std::size_t some = std::min<std::size_t>(literals, 32);
      put(some - 1);
      out.insert(out.end(), in.data() + at - literals, in.data() + at - literals + some);
    }
  };
  for (std::size_t at = 0; at < in.size();) {
    std::size_t length = 0, distance = 0;
    if (at + 3 <= in.size()) {
      const auto [place, is_new] = last.try_emplace({in.data() + at, in.data() + at + 3}, at);
      distance = at - place->second;
      place->second = at;
      const std::size_t most = is_new || distance > 8192 ? 0 : in.size() - at;
      while (length < std::min<std::size_t>(most, 264) &&
             in[at + length] == in[at + length - distance]) {
        ++length;
      }
    }
    if (length < 3) {
      ++at, ++literals;
      continue;
    }
    flush(at);
    put(std::min<std::size_t>(length - 2, 7) << 5 | (distance - 1) >> 8);
    if (length >= 9) put(length - 9);
    put((distance - 1) & 255);
    at += length;
  }
  flush(in.size());
  return out;
}

/// Bytes with repetitions of many lengths and distances.
Bytes repetitive(std::size_t count, std::uint64_t seed) {
  Bytes bytes;
  for (std::uint64_t i = seed; bytes.size() < count; ++i) {
    const std::uint64_t random = mix(i);
    const std::size_t distance = 1 + (random >> 8) % std::min<std::size_t>(bytes.size() + 1, 8192);
    for (std::size_t left = 1 + (random >> 32) % 300; left > 0 && bytes.size() < count; --left) {
      bytes.push_back(random % 3 == 0 || distance > bytes.size()
                          ? static_cast<std::byte>(mix(i + left))
                          : bytes[bytes.size() - distance]);
    }
  }
  return bytes;
}

TEST(Lzf, StreamsOfLiblzfAreDecoded) {
  // Both streams were written by h5py.
  EXPECT_EQ(decode(bytes_of({1, 'a', 'a', 224, 35, 0, 1, 'a', 'a'}), 48),
            Bytes(48, std::byte{'a'}));
  EXPECT_EQ(decode(bytes_of({6,   'r', 'o', 'u', 'n', 'd', ' ', 'a', 32,  3,   0,  'r',
                             224, 6,   9,   6,   'i', 't', ' ', 'g', 'o', 'e', 's'}),
                   33),
            bytes_of("round and round and round it goes"));
}

TEST(Lzf, EveryLengthAndDistanceIsDecoded) {
  for (const std::size_t count : {1, 2, 31, 32, 33, 264, 265, 8191, 8193, 100'000}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const Bytes plain = repetitive(count, seed);
      EXPECT_EQ(decode(encode(plain), count), plain) << count << ", " << seed;
    }
  }
}

TEST(Lzf, DamagedStreamsAreErrorsAndNeverOverrun) {
  const Bytes plain = repetitive(2000, 3), stream = encode(plain);
  const auto fails = [](const Bytes& damaged, std::size_t bytes) {
    return !error_of([&] { decode(damaged, bytes); }, ExitCode::failed).empty();
  };
  for (std::size_t bytes = 0; bytes < stream.size(); ++bytes) {
    EXPECT_TRUE(fails(Bytes(stream.begin(), stream.begin() + static_cast<long>(bytes)), 2000));
  }
  EXPECT_TRUE(fails(stream, 1999));
  EXPECT_TRUE(fails(stream, 2001));
  EXPECT_TRUE(fails(bytes_of({32, 0}), 3)) << "it repeats bytes before the first one";
  EXPECT_TRUE(fails(bytes_of({0, 'a', 32, 1}), 4)) << "it repeats bytes before the first one";
  for (std::size_t at = 0; at < stream.size(); ++at) {
    Bytes damaged = stream;
    damaged[at] ^= static_cast<std::byte>(1 + mix(at) % 255);
    try {
      decode(damaged, 2000);
    } catch (const Error&) {  // a damaged literal is not noticed
    }
  }
}

// ---------------------------------------------------------------- data sets

constexpr hsize_t rows = 40, columns = 100, chunk_rows = 10;

/// A data set of four chunks, whose filters are shuffle and lzf, as h5py writes them. The second
/// chunk is not compressed, and the third one was never written. Returns the values.
std::vector<std::int32_t> write_file(const std::string& path, const Bytes& fourth = {}) {
  const auto values = test::counting<std::int32_t>(rows * columns);
  constexpr std::size_t bytes = chunk_rows * columns * 4;
  const auto file = test::make_file(path);
  test::make_dataset(file, "x", H5T_STD_I32LE,
                     {{rows, columns},
                      {chunk_rows, columns},
                      [](hid_t p) {
                        const unsigned about[] = {4, 0x105, bytes};
                        H5Pset_shuffle(p);
                        H5Pset_filter(p, lzf_filter, H5Z_FLAG_OPTIONAL, 3, about);
                      }},
                     H5T_NATIVE_INT32, nullptr);
  const hdf5::Lock lock;
  const hdf5::Dataset dataset(H5Dopen2(file.get(), "x", H5P_DEFAULT), "open");
  for (const hsize_t chunk : {0, 1, 3}) {
    const auto* const plain =
        reinterpret_cast<const std::byte*>(values.data() + chunk * chunk_rows * columns);
    Bytes shuffled(bytes);
    for (std::size_t i = 0; i < bytes; ++i) shuffled[i % 4 * (bytes / 4) + i / 4] = plain[i];
    Bytes stored = chunk == 1 ? shuffled : encode(shuffled);
    if (chunk == 3 && !fourth.empty()) stored = fourth;
    const hsize_t place[] = {chunk * chunk_rows, 0};
    hdf5::check(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, chunk == 1 ? 2 : 0, place, stored.size(),
                               stored.data()),
                "write");
  }
  return values;
}

std::unique_ptr<Source> open_lzf(const std::string& file, ReadWay way) {
  return open_dataset_source(file, "/x", {.way = way});
}

TEST(Lzf, DataSetsAreReadWithAndWithoutHdf5) {
  const test::TemporaryFolder folder;
  auto expected = write_file(folder / "x.h5");
  std::fill_n(expected.begin() + 2 * chunk_rows * columns, chunk_rows * columns, 0);
  for (const ReadWay way : {ReadWay::automatic, ReadWay::by_library}) {
    const auto source = open_lzf(folder / "x.h5", way);
    EXPECT_EQ(source->decoding().has_value(), way == ReadWay::automatic);
    std::vector<std::int32_t> values(rows * columns, -1);
    source->read(0, values.size(), reinterpret_cast<std::byte*>(values.data()));
    EXPECT_EQ(values, expected);
  }
}

TEST(Lzf, ADamagedChunkIsNamed) {
  const test::TemporaryFolder folder;
  int number = 0;
  for (const Bytes& damage :
       {bytes_of({7, 1}), bytes_of({32, 0}), bytes_of({0, 1}), encode(Bytes(5000, std::byte{1}))}) {
    const std::string file = folder / (std::to_string(number++) + ".h5");
    write_file(file, damage);
    const auto read = [&](ReadWay way) {
      const auto source = open_lzf(file, way);
      std::vector<std::int32_t> values(rows * columns);
      source->read(0, values.size(), reinterpret_cast<std::byte*>(values.data()));
    };
    EXPECT_TRUE(names(error_of([&] { read(ReadWay::automatic); }, ExitCode::failed), "lzf",
                      "[30, 0]", file));
    if (number > 2) continue;  // HDF5 does not compare the size
    EXPECT_TRUE(names(error_of([&] { read(ReadWay::by_library); }, ExitCode::failed), "lzf", file));
  }
}

}  // namespace
}  // namespace shardstream::io
