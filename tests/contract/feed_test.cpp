// The feed on every backend: each element reaches the kernels once, at its position, in every mode
// and with any sizes; and a failing reader ends it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <mutex>
#include <set>

#include "contract/feed_modes.hpp"
#include "pipeline/feed.hpp"
#include "support/backend.hpp"
#include "support/pipeline_inputs.hpp"

namespace shardstream::pipeline {
namespace {

using device::Buffer;
using device::Memory;
using test::RampSource;

constexpr ElementSize i64{.stored = 8, .element = 8};

std::string word_of(Mode mode) {
  constexpr const char* names[] = {"stream",         "pageable", "pinned",
                                   "write-combined", "mapped",   "resident"};
  return names[static_cast<int>(mode)];
}

/// Runs a feed twice and compares the device memory with the source.
void expect_all_elements(const Range& shard, const Sizes& sizes, const std::string& what,
                         std::uint64_t head = 0) {
  const auto device = test::make_backend();
  const RampSource source(shard.end() + 1000, std::numeric_limits<std::uint64_t>::max(), head);
  std::mutex mutex;
  std::set<std::uint64_t> kept;
  const auto keep = [&](Range elements, const std::byte* data) {
    const auto* values = reinterpret_cast<const std::int64_t*>(data);
    std::lock_guard lock(mutex);
    for (std::uint64_t i = 0; i < elements.count; ++i) {
      EXPECT_EQ(values[i], RampSource::value(elements.first + i)) << what;
      EXPECT_TRUE(kept.insert(elements.first + i).second) << what << ": kept twice";
    }
  };
  measure::Recorder recorder;
  Feed feed(*device, recorder, source, shard, sizes);
  feed.load(keep);
  for (int round = 0; round < 2; ++round) {
    const Buffer<std::int64_t> seen(*device, Memory::pinned, shard.count);
    std::uint64_t next = shard.first;
    feed.run(
        [&](device::Stream& compute, const Batch& batch) {
          EXPECT_EQ(batch.elements.first, next) << what;
          EXPECT_EQ(batch.elements, feed.batch(batch.number)) << what;
          next = batch.elements.end();
          compute.download(seen.data() + (batch.elements.first - shard.first), batch.data,
                           batch.elements.count * sizeof(std::int64_t));
        },
        keep);
    feed.compute().synchronize();
    EXPECT_EQ(next, shard.end()) << what;
    EXPECT_EQ(kept.size(), shard.count) << what;
    if (sizes.mode == Mode::stream) kept.clear();
    for (std::uint64_t i = 0; i < shard.count; ++i) {
      ASSERT_EQ(seen[i], RampSource::value(shard.first + i)) << what << ", element " << i;
    }
  }
}

TEST(Feed, BringsEveryElementInEveryModeAndSize) {
  for (const Mode mode : every_mode) {
    for (const std::uint64_t count : {1UL, 63UL, 64UL, 65UL, 1000UL, 20 * 64UL}) {
      for (const std::uint64_t batch : {unit, 3 * unit, 40 * unit}) {
        for (const std::uint64_t slot : {unit, 2 * unit}) {
          Sizes sizes{.mode = mode,
                      .of = i64,
                      .slot = std::min(slot, batch),
                      .slots = 3,
                      .batch = batch,
                      .batches = 2,
                      .readers = 2};
          if (mode == Mode::resident) sizes.batches = ceil_div(count, batch);
          expect_all_elements({5 * unit, count}, sizes,
                              word_of(mode) + ", " + std::to_string(count) + " elements, batch " +
                                  std::to_string(batch) + ", slot " + std::to_string(slot));
        }
      }
    }
  }
}

/// As in a file that is read in whole blocks.
TEST(Feed, ElementsMayBeginAnywhereInTheirSlot) {
  for (const Mode mode : {Mode::stream, Mode::pageable, Mode::pinned, Mode::resident}) {
    for (const std::uint64_t head : {8, 2048, 4096 + 24}) {
      const std::uint64_t count = 20 * unit + 5, batch = 3 * unit;
      Sizes sizes{.mode = mode,
                  .of = i64,
                  .slot = 2 * unit,
                  .slots = 3,
                  .batch = batch,
                  .batches = 2,
                  .readers = 2};
      if (mode == Mode::resident) sizes.batches = ceil_div(count, batch);
      expect_all_elements({5 * unit, count}, sizes,
                          word_of(mode) + ", " + std::to_string(head) + " bytes ahead", head);
    }
  }
}

TEST(Feed, OneSlotAndOneBatchAreEnough) {
  expect_all_elements(
      {0, 1000}, {.of = i64, .slot = unit, .slots = 1, .batch = unit, .batches = 1, .readers = 1},
      "one of each");
}

TEST(Feed, AnEmptyShardHasNoBatches) {
  const auto device = test::make_backend();
  const RampSource source(10);
  for (const Mode mode : every_mode) {
    measure::Recorder recorder;
    Feed feed(*device, recorder, source, {10, 0},
              {.mode = mode,
               .of = i64,
               .slot = unit,
               .slots = 1,
               .batch = unit,
               .batches = 1,
               .readers = 1});
    const auto nothing = [](Range, const std::byte*) { FAIL(); };
    feed.load(nothing);
    feed.run([](device::Stream&, const Batch&) { FAIL(); }, nothing);
    feed.compute().synchronize();
    EXPECT_EQ(feed.batches(), 0U);
  }
}

TEST(Feed, AReaderThatFailsEndsTheRunInEveryMode) {
  const auto device = test::make_backend();
  const RampSource source(100000, 77777);
  for (const Mode mode : every_mode) {
    Sizes sizes{.mode = mode,
                .of = i64,
                .slot = unit,
                .slots = 4,
                .batch = 10 * unit,
                .batches = 2,
                .readers = 3};
    if (mode == Mode::resident) sizes.batches = ceil_div(100000, sizes.batch);
    measure::Recorder recorder;
    Feed feed(*device, recorder, source, {0, 100000}, sizes);
    const auto keep = [](Range, const std::byte*) {};
    EXPECT_THROW(
        {
          feed.load(keep);
          feed.run([](device::Stream&, const Batch&) {}, keep);
        },
        test::ReadFailed)
        << word_of(mode);
  }
}

TEST(Feed, AWorkloadThatFailsEndsTheRun) {
  const auto device = test::make_backend();
  const RampSource source(100000);
  measure::Recorder recorder;
  Feed feed(*device, recorder, source, {0, 100000},
            {.of = i64, .slot = unit, .slots = 4, .batch = 10 * unit, .batches = 2, .readers = 3});
  EXPECT_THROW(feed.run(
                   [](device::Stream&, const Batch& batch) {
                     if (batch.number == 3) throw std::runtime_error("no");
                   },
                   [](Range, const std::byte*) {}),
               std::runtime_error);
}

}  // namespace
}  // namespace shardstream::pipeline
