// The feed of packed data on every backend: readers or the device convert each element once, in
// every mode and with any sizes, and count the missing values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <set>
#include <string>

#include "contract/feed_modes.hpp"
#include "pipeline/feed.hpp"
#include "support/backend.hpp"
#include "support/pipeline_inputs.hpp"

namespace shardstream::pipeline {
namespace {

using device::Buffer;
using device::Memory;
using test::PackedSource;

constexpr Converter every_converter[] = {Converter::readers, Converter::device};

/// Sizes for a shard of `count` elements.
Sizes sizes_of(Mode mode, Converter converter, std::uint64_t count, std::uint64_t batch,
               std::uint64_t slot) {
  Sizes sizes{.mode = mode,
              .of = {converter, sizeof(std::int16_t), sizeof(double)},
              .slot = slot,
              .slots = 3,
              .batch = batch,
              .batches = 2,
              .readers = 2};
  const bool is_resident = mode == Mode::resident;
  if (converter == Converter::device) {
    sizes.converted = is_resident ? ceil_div(count, batch) * batch : batch;
  } else if (is_resident) {
    sizes.batches = ceil_div(count, batch);
  }
  return sizes;
}

/// The stored elements that readers have passed on.
class StoredElements {
 public:
  void keep(Range elements, const std::byte* data) {
    const std::lock_guard lock(mutex_);
    for (std::uint64_t i = 0; i < elements.count; ++i) {
      std::int16_t stored;
      std::memcpy(&stored, data + i * sizeof stored, sizeof stored);
      EXPECT_EQ(stored, PackedSource::stored_value(elements.first + i));
      EXPECT_TRUE(kept_.insert(elements.first + i).second) << "kept twice";
    }
  }
  std::size_t count() const { return kept_.size(); }
  void clear() { kept_.clear(); }

 private:
  std::mutex mutex_;
  std::set<std::uint64_t> kept_;
};

/// Runs a feed twice and compares the device memory with the source.
template <class Packed>
void expect_converted(Range shard, const Sizes& sizes, std::uint64_t head) {
  const auto device = test::make_backend();
  const Packed source(shard.end() + 1000, head);
  StoredElements stored;
  const auto keep = [&](Range elements, const std::byte* data) { stored.keep(elements, data); };
  std::uint64_t missing = 0;
  for (std::uint64_t i = shard.first; i < shard.end(); ++i) missing += Packed::is_missing(i);
  measure::Recorder recorder;
  Feed feed(*device, recorder, source, shard, sizes);
  feed.load(keep);
  for (int round = 0; round < 2; ++round) {
    const Buffer<double> seen(*device, Memory::pinned, shard.count);
    std::fill_n(seen.data(), shard.count, -1);
    feed.run(
        [&](device::Stream& compute, const Batch& batch) {
          compute.download(seen.data() + (batch.elements.first - shard.first), batch.data,
                           batch.elements.count * sizeof(double));
        },
        keep);
    feed.compute().synchronize();
    EXPECT_EQ(feed.missing(), missing);
    EXPECT_EQ(stored.count(), shard.count);
    if (sizes.mode == Mode::stream) stored.clear();
    for (std::uint64_t i = 0; i < shard.count; ++i) {
      const double expected = Packed::value(shard.first + i);
      ASSERT_TRUE(seen[i] == expected || (std::isnan(seen[i]) && std::isnan(expected)))
          << "element " << i << " is " << seen[i] << " instead of " << expected;
    }
  }
}

/// Calls expect_converted() for each converter, mode, size and position in a slot.
template <class Packed>
void expect_converted_in_every_way(std::initializer_list<std::uint64_t> counts) {
  for (const Converter converter : every_converter) {
    for (const Mode mode : every_mode) {
      for (const std::uint64_t count : counts) {
        for (const std::uint64_t batch : {unit, 3 * unit, 40 * unit}) {
          for (const std::uint64_t head : {0, 4096 + 7}) {
            SCOPED_TRACE((converter == Converter::device ? "device, mode " : "readers, mode ") +
                         std::to_string(static_cast<int>(mode)) + ", " + std::to_string(count) +
                         " elements, batch " + std::to_string(batch) + ", head " +
                         std::to_string(head));
            const std::uint64_t slot = std::min(2 * unit, batch);
            expect_converted<Packed>({5 * unit, count},
                                     sizes_of(mode, converter, count, batch, slot), head);
          }
        }
      }
    }
  }
}

TEST(FeedOfPackedData, ConvertsEveryElementInEveryModeAndSize) {
  expect_converted_in_every_way<PackedSource>({1, 63, 64, 65, 20 * 64 + 5});
}

TEST(FeedOfPackedData, ConvertsTheElementsOfEachFileByItsOwnConversion) {
  expect_converted_in_every_way<test::PackedFiles>({1, 65, 20 * 64 + 5});
}

TEST(FeedOfPackedData, HasNoMissingValuesInAnEmptyShard) {
  const auto device = test::make_backend();
  const PackedSource source(10);
  for (const Converter converter : every_converter) {
    for (const Mode mode : every_mode) {
      measure::Recorder recorder;
      Feed feed(*device, recorder, source, {10, 0}, sizes_of(mode, converter, 1, unit, unit));
      const auto nothing = [](Range, const std::byte*) { FAIL(); };
      feed.load(nothing);
      feed.run([](device::Stream&, const Batch&) { FAIL(); }, nothing);
      feed.compute().synchronize();
      EXPECT_EQ(feed.missing(), 0U);
    }
  }
}

}  // namespace
}  // namespace shardstream::pipeline
