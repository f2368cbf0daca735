// The filters of chunks, compared with those of HDF5 and with plain arithmetic; and chunks that
// several reads share.
#include "io/source/chunks/filters.hpp"

#include <gtest/gtest.h>
#include <libdeflate.h>

#include <cstring>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "io/hdf5/filters.hpp"
#include "io/hdf5/lzf.hpp"
#include "io/source/chunks/decoded.hpp"
#include "kernels/data/generate.hpp"
#include "support/errors.hpp"
#include "support/hdf5_inputs.hpp"

namespace shardstream::io {
namespace {

using test::error_of;
using test::names;

using Bytes = std::vector<std::byte>;

Bytes noise(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(mix(i));
  return bytes;
}

/// The checksum word by word, as HDF5 computes it: folded sums of 16-bit words.
std::uint32_t plain_fletcher32(const Bytes& data) {
  std::uint32_t one = 0, two = 0;
  const auto fold = [](std::uint32_t sum) { return (sum & 0xffffU) + (sum >> 16); };
  for (std::size_t i = 0; i < data.size(); i += 2) {
    const auto low = i + 1 < data.size() ? std::to_integer<std::uint32_t>(data[i + 1]) : 0;
    one = fold(one + (std::to_integer<std::uint32_t>(data[i]) << 8 | low));
    two = fold(two + one);
  }
  return fold(two) << 16 | fold(one);
}

ChunkFilters filters_of(const std::function<void(hid_t)>& set) {
  const hdf5::Lock lock;
  const hdf5::Properties creation(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
  set(creation.get());
  return ChunkFilters::of(io::filters_of(creation.get(), "x")).value();
}

Bytes zlib(const Bytes& data) {
  auto* const compressor = libdeflate_alloc_compressor(4);
  Bytes out(libdeflate_zlib_compress_bound(compressor, data.size()));
  out.resize(
      libdeflate_zlib_compress(compressor, data.data(), data.size(), out.data(), out.size()));
  libdeflate_free_compressor(compressor);
  return out;
}

TEST(ChunkFilters, ChecksumsAreThoseOfHdf5) {
  for (const std::size_t count : {0, 1, 2, 3, 100, 719, 720, 721, 8191, 8192, 8193, 50'001}) {
    EXPECT_EQ(fletcher32(noise(count)), plain_fletcher32(noise(count))) << count;
    const Bytes zeros(count), ones(count, std::byte{255});
    EXPECT_EQ(fletcher32(zeros), 0U) << count;
    EXPECT_EQ(fletcher32(ones), plain_fletcher32(ones)) << count;
  }
}

TEST(ChunkFilters, BytesAreUnshuffled) {
  for (const std::size_t element : {1, 2, 3, 4, 8, 10, 16}) {
    for (const std::size_t count : {0, 1, 2, 7, 64, 1001}) {
      for (const std::size_t rest : {std::size_t{0}, element - 1}) {
        const Bytes plain = noise(element * count + rest);
        Bytes shuffled = plain, back(plain.size());
        for (std::size_t i = 0; count > 1 && i < element * count; ++i) {
          shuffled[i % element * count + i / element] = plain[i];
        }
        unshuffle(shuffled, element, back.data());
        EXPECT_EQ(back, plain) << element << " x " << count << " + " << rest;
      }
    }
  }
}

TEST(ChunkFilters, DamagedDataAreNamed) {
  const auto filters = filters_of([](hid_t p) {
    const unsigned element = 4;
    H5Pset_filter(p, H5Z_FILTER_SHUFFLE, 0, 1, &element);  // H5Pset_shuffle() sets no element size
    H5Pset_deflate(p, 4);
  });
  DecodingRoom room;
  Bytes out(4000);
  const Bytes sound = zlib(noise(4000));
  const auto decode = [&](const Bytes& stored, std::uint32_t mask) {
    filters.decode(stored, mask, out.data(), out.size(), room);
  };
  decode(sound, 0);
  Bytes flipped = sound;
  flipped[1000] ^= std::byte{1};
  for (const auto& [stored, mask] :
       std::vector<std::pair<Bytes, std::uint32_t>>{{flipped, 0},
                                                    {Bytes(sound.begin(), sound.end() - 9), 0},
                                                    {zlib(noise(3999)), 0},
                                                    {zlib(noise(4001)), 0},
                                                    {Bytes(), 0},
                                                    {sound, 3}}) {
    EXPECT_NE(error_of([&, &from = stored, &left_out = mask] { decode(from, left_out); },
                       ExitCode::failed),
              "");
  }
  decode(noise(4000), 3);
  EXPECT_EQ(out, noise(4000));
}

TEST(ChunkFilters, UnknownFiltersAreLeftToHdf5) {
  const hdf5::Lock lock;
  const hdf5::Properties creation(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
  H5Pset_scaleoffset(creation.get(), H5Z_SO_INT, 0);
  EXPECT_FALSE(ChunkFilters::of(io::filters_of(creation.get(), "x")));
  const hdf5::Properties twice(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
  for (int i = 0; i < 2; ++i) H5Pset_deflate(twice.get(), 4);
  EXPECT_FALSE(ChunkFilters::of(io::filters_of(twice.get(), "x")));
  const hdf5::Properties both(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
  H5Pset_deflate(both.get(), 4);
  H5Pset_filter(both.get(), lzf_filter, H5Z_FLAG_OPTIONAL, 0, nullptr);
  register_lzf();
  EXPECT_FALSE(ChunkFilters::of(io::filters_of(both.get(), "x")));
}

// ---------------------------------------------------------------- shared chunks

TEST(DecodedChunks, AreDecodedOnceAndFreedWhenRead) {
  DecodedChunks chunks(4, 100, std::make_shared<DecodingMemory>());
  auto found = chunks.find(7);
  ASSERT_TRUE(found.claim);
  EXPECT_FALSE(chunks.find(7).claim) << "another thread decodes it";
  std::move(*found.claim).keep(chunks.memory(), 10);
  for (const std::uint64_t elements : {4, 6}) {
    auto again = chunks.find(7);
    ASSERT_TRUE(again.bytes);
    chunks.used(7, elements, std::move(again.bytes));
  }
  EXPECT_TRUE(chunks.find(7).claim) << "all was read";
}

TEST(DecodedChunks, AFailureLeavesTheChunkToTheNext) {
  DecodedChunks chunks(4, 100, std::make_shared<DecodingMemory>());
  std::thread waiting;
  {
    const auto found = chunks.find(7);
    ASSERT_TRUE(found.claim);
    waiting = std::thread([&] {
      chunks.wait(7);
      EXPECT_TRUE(chunks.find(7).claim);
    });
  }
  waiting.join();
}

/// Decodes the chunks from 0 to `count` - 1, of which reads then use a part.
void decode(DecodedChunks& chunks, std::uint64_t count) {
  for (std::uint64_t number = 0; number < count; ++number) {
    auto found = chunks.find(number);
    std::move(found.claim.value()).keep(chunks.memory(), 10);
  }
}

TEST(DecodedChunks, MemoryIsBounded) {
  DecodedChunks chunks(3, 100, std::make_shared<DecodingMemory>());
  decode(chunks, 10);
  std::uint64_t kept = 0;
  for (std::uint64_t number = 10; number-- > 0;) {
    if (chunks.find(number).bytes) ++kept;
  }
  EXPECT_EQ(kept, 3U);
}

TEST(DecodedChunks, OfSeveralFilesShareTheirMemory) {
  const auto memory = std::make_shared<DecodingMemory>(1000);
  DecodedChunks others(32, 100, memory);
  {
    DecodedChunks first(32, 100, memory);
    decode(first, 6);
    EXPECT_TRUE(memory->has_room(400));
    EXPECT_FALSE(memory->has_room(401));
    decode(others, 10);
    EXPECT_FALSE(memory->has_room(1));
    DecodedChunks third(32, 100, memory);
    decode(third, 10);
    EXPECT_TRUE(third.find(9).bytes && third.find(8).bytes) << "each file has room for two";
    EXPECT_TRUE(first.find(0).bytes);
  }
  EXPECT_TRUE(memory->has_room(600)) << "closed files have none";
  EXPECT_FALSE(memory->has_room(601));
}

TEST(DecodedChunks, NothingIsDecodedAheadWithoutRoom) {
  DecodedChunks chunks(2, 100, std::make_shared<DecodingMemory>());
  for (const std::uint64_t number : {1, 2}) {
    auto ahead = chunks.find_ahead(number);
    ASSERT_TRUE(ahead);
    EXPECT_FALSE(chunks.find_ahead(number)) << "it is being decoded";
    std::move(*ahead).keep(chunks.memory(), 10);
  }
  EXPECT_FALSE(chunks.find_ahead(3)) << "nobody has asked for the others yet";
  EXPECT_TRUE(chunks.find(1).bytes);
  EXPECT_TRUE(chunks.find_ahead(3)) << "in the place of the one that was used";
}

}  // namespace
}  // namespace shardstream::io
