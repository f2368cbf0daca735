// Ceilings of sources are the same on all ranks, or on none.
#include "measure/source_ceilings.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "io/source/dataset/contiguous_source.hpp"
#include "io/source/generator_source.hpp"
#include "support/conversions.hpp"
#include "support/pipeline_inputs.hpp"
#include "support/session.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::measure {
namespace {

using io::ReadWay;
using test::session;

constexpr std::uint64_t leaf = 65'536;
constexpr Readers readers{.threads = 2, .piece = leaf};

Range shard_of(std::uint64_t elements) {
  return shard(elements, leaf, static_cast<std::uint64_t>(session().rank()),
               static_cast<std::uint64_t>(session().size()));
}

void expect_sound(const std::optional<Ceiling>& ceiling, const std::string& name) {
  ASSERT_TRUE(ceiling) << name;
  EXPECT_EQ(ceiling->name, name);
  EXPECT_EQ(ceiling->unit, "GB/s");
  EXPECT_GT(ceiling->min, 0);
  EXPECT_LT(ceiling->aggregate, 1e5);
  EXPECT_LE(ceiling->min, ceiling->aggregate);
  for (const double value : {ceiling->min, ceiling->aggregate}) {
    EXPECT_EQ(session().max(value), -session().max(-value)) << name << " differs between ranks";
  }
}

/// Eight leaves of f32 and a little more, 2048 bytes into a file of each rank's own.
class SourceCeilings : public testing::Test {
 protected:
  static constexpr std::uint64_t count = 8 * leaf + 100;

  io::ContiguousSource open(ReadWay way) const {
    const Descriptor file(path_, O_WRONLY | O_CREAT, 0600);
    EXPECT_TRUE(file.write_at(0, std::vector<std::byte>(2048 + count * 4)));
    return {"it", test::unchanged(ElementType::f32),           io::unnamed_dimensions({count}),
            {},   {Descriptor(path_, O_RDONLY), 2048, {4, 0}}, way};
  }

  test::TemporaryFolder folder_;
  std::string path_ = folder_ / "file";
};

TEST_F(SourceCeilings, AGeneratorIsDecodedAndInNoFile) {
  const io::GeneratorSource source(Generator::ramp, ElementType::f64, {count}, 1);
  const Range mine = shard_of(count);
  const PageCache cache = page_cache(session(), source, mine);
  EXPECT_EQ(cache.state, "");
  EXPECT_EQ(cache.share, std::nullopt);
  EXPECT_EQ(storage_read(session(), source, mine, readers), std::nullopt);
  EXPECT_EQ(page_cache_read(session(), source, mine, readers), std::nullopt);
  const auto all = source_ceilings(session(), source, mine, readers, cache);
  ASSERT_EQ(all.size(), 1U);
  expect_sound(all[0], "decode");
}

TEST_F(SourceCeilings, AWarmFileIsReadFromThePageCache) {
  const auto source = open(ReadWay::cached);
  const Range mine = shard_of(count);
  const PageCache cache = page_cache(session(), source, mine);
  EXPECT_EQ(cache.state, "warm");
  EXPECT_EQ(cache.share, 1.0);
  const auto all = source_ceilings(session(), source, mine, readers, cache);
  ASSERT_EQ(all.size(), 1U);
  expect_sound(all[0], "page_cache_read");
}

TEST_F(SourceCeilings, AFileThatIsReadDirectIsReadFromStorage) {
  open(ReadWay::cached);  // writes it
  const io::DirectFile direct{Descriptor(path_, O_RDONLY)};
  if (!direct.valid()) GTEST_SKIP() << "this file system refuses O_DIRECT";
  const auto source = open(ReadWay::direct);
  const Range mine = shard_of(count);
  const auto all =
      source_ceilings(session(), source, mine, readers, page_cache(session(), source, mine));
  ASSERT_EQ(all.size(), 1U);
  expect_sound(all[0], "storage_read");
}

/// All but the first have nothing to read, and are left out of the least.
TEST_F(SourceCeilings, RanksWithoutDataTakePart) {
  const auto source = open(ReadWay::cached);
  const Range mine{0, session().rank() == 0 ? leaf : 0};
  const PageCache cache = page_cache(session(), source, mine);
  EXPECT_EQ(cache.state, "warm");
  const auto all = source_ceilings(session(), source, mine, readers, cache);
  ASSERT_EQ(all.size(), 1U);
  expect_sound(all[0], "page_cache_read");
  EXPECT_EQ(all[0].min, all[0].aggregate);
}

TEST_F(SourceCeilings, OneRanksFailureIsEveryRanks) {
  const test::RampSource source(count, session().rank() == session().size() - 1 ? 0 : count);
  EXPECT_THROW(decode(session(), source, {0, count}, readers), ranks::AgreedError);
}

TEST_F(SourceCeilings, MemoryIsReadAndCopied) {
  const HostMemory memory(session(), 3, std::uint64_t{8} << 20);
  expect_sound(memory.read(), "host_memory_read");
  // The last piece is shorter; fewer slots than readers are a slot each.
  expect_sound(memory.copy({.readers = 3, .slots = 7, .slot_bytes = 3 << 20}), "host_memory_copy");
  expect_sound(memory.copy({.readers = 2, .slots = 1, .slot_bytes = 1 << 20}), "host_memory_copy");
}

TEST_F(SourceCeilings, TheSampleOfMemoryIsLargerThanTheCacheButNotThanThereIs) {
  constexpr std::uint64_t MiB = std::uint64_t{1} << 20, GiB = std::uint64_t{1} << 30;
  EXPECT_EQ(host_memory_sample(300 * MiB, 1000 * GiB, 1), 1200 * MiB);
  EXPECT_EQ(host_memory_sample(300 * MiB, 1000 * GiB, 4), 300 * MiB);
  EXPECT_EQ(host_memory_sample(4096 * MiB, 1000 * GiB, 1), 2048 * MiB);
  EXPECT_EQ(host_memory_sample(0, 1000 * GiB, 1), 256 * MiB);
  EXPECT_EQ(host_memory_sample(300 * MiB, 2 * GiB, 2), 128 * MiB);
}

}  // namespace
}  // namespace shardstream::measure
