// The cached share of real files: written pages are cached, dropped pages are not.
#include "io/source/dataset/direct_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "support/temporary_folder.hpp"

namespace shardstream::io {
namespace {

constexpr std::uint64_t MiB = std::uint64_t{1} << 20;

using Ask = std::optional<double> (*)(const Descriptor&, Range, std::uint64_t);
constexpr Ask ways[] = {cached_share_by_mapping, cached_share_by_reading};

class PageCache : public testing::Test {
 protected:
  PageCache() { EXPECT_TRUE(file_.write_at(0, std::vector<std::byte>(8 * MiB, std::byte{7}))); }

  /// False if the file system does not drop pages, such as tmpfs.
  bool drop(Range bytes) {
    EXPECT_EQ(::fsync(file_.get()), 0);
    EXPECT_EQ(::posix_fadvise(file_.get(), static_cast<off_t>(bytes.first),
                              static_cast<off_t>(bytes.count), POSIX_FADV_DONTNEED),
              0);
    const auto share = cached_share_by_mapping(file_, bytes, 1000);
    return share && *share < 0.5;
  }

  test::TemporaryFolder folder_;
  Descriptor file_{folder_ / "file", O_RDWR | O_CREAT, 0600};
};

TEST_F(PageCache, WrittenPagesAreCached) {
  EXPECT_EQ(cached_share(file_, {0, 8 * MiB}), 1.0);
  for (const Ask ask : ways) {
    const auto share = ask(file_, {5000, 3 * MiB}, 100);
    if (share) {
      EXPECT_EQ(*share, 1.0);
    }
  }
  EXPECT_EQ(page_cache_state(cached_share(file_, {0, 8 * MiB})), "warm");
}

TEST_F(PageCache, DroppedPagesAreNotCached) {
  if (!drop({0, 8 * MiB})) GTEST_SKIP() << "this file system keeps its pages";
  for (const Ask ask : ways) {
    // If the thread loses its CPU between two calls, the page may have been loaded meanwhile.
    std::optional<double> min;
    for (int attempt = 0; attempt < 20 && min.value_or(1) > 0; ++attempt) {
      EXPECT_TRUE(drop({0, 8 * MiB}));
      const auto share = ask(file_, {0, 8 * MiB}, 64);
      if (!share) break;
      min = std::min(*share, min.value_or(1));
    }
    if (min) {
      EXPECT_EQ(*min, 0.0);
    }
  }
  EXPECT_TRUE(drop({0, 8 * MiB}));
  EXPECT_EQ(page_cache_state(cached_share(file_, {0, 8 * MiB})), "cold");
}

TEST_F(PageCache, HalfOfItIsPartly) {
  if (!drop({0, 4 * MiB})) GTEST_SKIP() << "this file system keeps its pages";
  const auto share = cached_share(file_, {0, 8 * MiB});
  ASSERT_TRUE(share);
  EXPECT_EQ(*share, 0.5);
  EXPECT_EQ(page_cache_state(share), "partly");
  EXPECT_EQ(cached_share(file_, {4 * MiB, 4 * MiB}), 1.0);
  EXPECT_EQ(cached_share(file_, {0, 4 * MiB}), 0.0);
}

/// Otherwise the next call would find the sampled file cached.
TEST_F(PageCache, SamplingLoadsOnlyTheSampledPages) {
  if (!drop({0, 8 * MiB})) GTEST_SKIP() << "this file system keeps its pages";
  for (int i = 0; i < 10; ++i) cached_share_by_mapping(file_, {0, 8 * MiB}, 100);
  EXPECT_EQ(cached_share_by_mapping(file_, {0, 8 * MiB}, 2048), 0.0);
  for (int i = 0; i < 4; ++i) cached_share_by_reading(file_, {0, 8 * MiB}, 16);
  const auto share = cached_share_by_mapping(file_, {0, 8 * MiB}, 2048);
  ASSERT_TRUE(share);
  EXPECT_LE(*share, 4 * 16 / 2048.0);
}

TEST_F(PageCache, MissingBytesAreNotCached) {
  EXPECT_EQ(cached_share(file_, {0, 0}), std::nullopt);
  for (const Ask ask : ways) {
    const auto share = ask(file_, {16 * MiB, MiB}, 10);
    if (share) {
      EXPECT_EQ(*share, 0.0);
    }
  }
  EXPECT_EQ(cached_share(Descriptor(), {0, MiB}), std::nullopt);
}

TEST(PageCacheState, HasFourNames) {
  EXPECT_EQ(page_cache_state(std::nullopt), "unknown");
  EXPECT_EQ(page_cache_state(0.0), "cold");
  EXPECT_EQ(page_cache_state(0.06), "partly");
  EXPECT_EQ(page_cache_state(0.94), "partly");
  EXPECT_EQ(page_cache_state(1.0), "warm");
}

}  // namespace
}  // namespace shardstream::io
