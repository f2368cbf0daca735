// The resolved values of the [pipeline] options.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "core/error.hpp"
#include "pipeline/options.hpp"
#include "pipeline/stream_limits.hpp"
#include "support/errors.hpp"

namespace shardstream::pipeline {
namespace {

using test::error_of;
using test::names;

constexpr std::uint64_t MiB = std::uint64_t{1} << 20, GiB = std::uint64_t{1} << 30;
constexpr std::uint64_t leaf = 65536, f32 = 4;

runtime::Resources machine() {
  return {.threads = 16,
          .ranks_on_host = 1,
          .cache = 300 * MiB,
          .host_memory = 100 * GiB,
          .device_memory = 100 * GiB};
}

Options options_of(const std::vector<std::string>& arguments) {
  const OptionTable table({pipeline_options()});
  const char* const none[] = {nullptr};
  return table.resolve(table.parse_command_line(arguments), none, std::nullopt);
}

Sizes plan_for(const std::vector<std::string>& arguments, std::uint64_t shard,
               const runtime::Resources& resources = machine(), std::uint64_t extra = 0) {
  return choose_sizes(options_of(arguments), resources, {shard, f32, {}},
                      {.unit = leaf, .per_unit = 80, .fixed = extra});
}

std::string refusal(const std::vector<std::string>& arguments, std::uint64_t shard) {
  return error_of([&] { plan_for(arguments, shard); });
}

TEST(Plan, DefaultsFitTheMachine) {
  const Sizes sizes = plan_for({}, 4 * GiB);
  EXPECT_EQ(sizes.mode, Mode::stream);
  EXPECT_EQ(sizes.readers, 8U);
  EXPECT_EQ(sizes.slots, 16U);
  EXPECT_EQ(sizes.slot * f32, 4 * MiB);
  EXPECT_EQ(sizes.batch * f32, 64 * MiB);
  EXPECT_EQ(sizes.batches, 3U);
}

TEST(Plan, TheRingStaysInTheCacheThatRanksShare) {
  runtime::Resources shared = machine();
  shared.ranks_on_host = 4;
  const Sizes sizes = plan_for({}, 4 * GiB, shared);
  EXPECT_LE(sizes.slots * sizes.slot * f32 * 4, 300 * MiB / 2);
  EXPECT_GE(sizes.slot * f32, MiB);
  EXPECT_EQ(sizes.readers, 12U);
}

TEST(Plan, RingsOfAProductStayInTheCacheThatRanksShare) {
  runtime::Resources shared = machine();
  for (const auto& [ranks, up, down] : {std::tuple{1, 4, 4}, {2, 2, 4}, {4, 1, 2}, {8, 1, 2}}) {
    shared.ranks_on_host = static_cast<std::uint64_t>(ranks);
    const StagingSizes given = staging_sizes(options_of({}), shared, ReaderWork::computing);
    EXPECT_EQ(given.readers, 14U);
    EXPECT_EQ(given.slots, 28U);
    EXPECT_EQ(given.slot_bytes, static_cast<std::uint64_t>(up) * MiB) << ranks;
    EXPECT_EQ(given.drain_slot_bytes, static_cast<std::uint64_t>(down) * MiB) << ranks;
  }
  const StagingSizes asked = staging_sizes(options_of({"--pipeline.slot", "512KiB"}), shared);
  EXPECT_EQ(asked.slot_bytes, MiB / 2);
  EXPECT_EQ(asked.drain_slot_bytes, MiB / 2);
}

TEST(Plan, ReadersThatComputeLeaveAnEighthOfTheCpus) {
  runtime::Resources granted = machine();
  for (const auto& [cpus, readers] : {std::pair{1U, 1U}, {4, 4}, {8, 7}, {17, 15}, {64, 16}}) {
    granted.threads = cpus;
    EXPECT_EQ(staging_sizes(options_of({}), granted, ReaderWork::computing).readers, readers)
        << cpus;
  }
  granted.threads = 64;
  EXPECT_EQ(staging_sizes(options_of({}), granted, ReaderWork::decoding).readers, 56U);
  granted.threads = 0;  // unknown
  EXPECT_EQ(staging_sizes(options_of({}), granted, ReaderWork::computing).readers, 1U);
}

TEST(Plan, ReadersThatDecodeHaveTheirCpusAndMemory) {
  runtime::Resources one = machine();
  const auto plan_with = [&](const std::optional<io::Decoding>& decoding) {
    return choose_sizes(options_of({}), one, {GiB, f32, decoding}, {.unit = leaf, .per_unit = 80});
  };
  EXPECT_EQ(plan_with({}).readers, 8U);
  EXPECT_EQ(plan_with(io::Decoding{.shared = 256 * MiB, .per_reader = 4 * MiB}).readers, 14U);
  one.host_memory = 300 * MiB;
  plan_with({});
  plan_with(io::Decoding{.shared = 32 * MiB, .per_reader = MiB});
  for (const io::Decoding& too_much : {io::Decoding{.shared = GiB, .per_reader = 0},
                                       io::Decoding{.shared = 0, .per_reader = GiB / 14}}) {
    error_of([&] { plan_with(too_much); });
  }
}

TEST(Plan, OnCpusTheProcessHasRoom) {
  runtime::Resources host = machine();
  host.backend = Backend::host;
  host.process_memory = 192 * MiB;
  EXPECT_EQ(device_limit(options_of({}), host, GiB), host.device_memory / 10 * 9);
  const auto limit_of = [&](std::uint64_t memory, const std::vector<std::string>& words = {}) {
    host.host_memory = host.device_memory = memory;
    return device_limit(options_of(words), host, 8 * MiB);
  };
  EXPECT_EQ(limit_of(2000 * MiB), 1800 * MiB);
  EXPECT_EQ(limit_of(300 * MiB), 100 * MiB);
  EXPECT_EQ(limit_of(200 * MiB), 0U);
  EXPECT_EQ(limit_of(100 * MiB), 0U);
  EXPECT_EQ(limit_of(300 * MiB, {"--pipeline.gpu-memory", "250MiB"}), 250 * MiB);
  host.backend = Backend::cuda;
  EXPECT_EQ(limit_of(300 * MiB), 270 * MiB);
}

TEST(Plan, InLittleMemoryABatchThatFitsIsNamed) {
  runtime::Resources host = machine();
  host.backend = Backend::host;
  host.process_memory = 192 * MiB;
  const auto sizes_in = [&](std::uint64_t memory, const std::vector<std::string>& words = {}) {
    host.host_memory = host.device_memory = memory;
    return choose_sizes(options_of(words), host, {GiB, f32, {}}, {.unit = leaf, .per_unit = 80});
  };
  EXPECT_EQ(sizes_in(500 * MiB).batch * f32, 64 * MiB);
  const std::string message = error_of([&] { sizes_in(260 * MiB); });
  const std::string option = "--pipeline.batch ";
  const auto at = message.find(option);
  ASSERT_NE(at, message.npos) << message;
  const std::string fits =
      message.substr(at + option.size(), message.find('B', at) + 1 - at - option.size());
  const Sizes sizes = sizes_in(260 * MiB, {"--pipeline.batch", fits});
  EXPECT_LE(sizes.device_bytes(f32) + sizes.host_bytes(GiB, f32) + host.process_memory, 260 * MiB);
  EXPECT_TRUE(names(error_of([&] { sizes_in(200 * MiB); }), "memory"));
}

TEST(Plan, SizesAreWholeLeaves) {
  const Sizes sizes = plan_for({"--pipeline.batch", "1000000", "--pipeline.slot", "1"}, GiB);
  EXPECT_EQ(sizes.batch, 4 * leaf);
  EXPECT_EQ(sizes.slot, leaf);
}

TEST(Plan, SizesAreLimitedToAShortShard) {
  const Sizes sizes = plan_for({}, 100);
  EXPECT_EQ(sizes.batch, leaf);
  EXPECT_EQ(sizes.batches, 1U);
  EXPECT_EQ(sizes.slots, 1U);
  EXPECT_EQ(sizes.readers, 1U);
  EXPECT_NO_THROW(plan_for({}, 0));
}

TEST(Plan, AResidentShardHoldsAllBatches) {
  const Sizes whole = plan_for({"--pipeline.mode", "resident"}, GiB);
  EXPECT_EQ(whole.batch, GiB);
  EXPECT_EQ(whole.batches, 1U);
  const Sizes cut = plan_for({"--pipeline.mode", "resident", "--pipeline.batch", "64MiB"}, GiB);
  EXPECT_EQ(cut.batches, 64U);
}

TEST(Plan, ErrorsNameTheSizeThatFits) {
  const auto too_large = refusal({"--pipeline.batch", "64GiB"}, 400 * GiB);
  const std::string option = "--pipeline.batch ";
  ASSERT_TRUE(names(too_large, option)) << too_large;
  const auto at = too_large.find(option) + option.size();
  const std::string size = too_large.substr(at, too_large.find(' ', at) - at);
  EXPECT_NO_THROW(plan_for({"--pipeline.batch", size}, 400 * GiB)) << size;

  const auto resident = refusal({"--pipeline.mode", "resident"}, 40 * GiB);
  EXPECT_TRUE(names(resident, "--pipeline.mode stream"));
  EXPECT_TRUE(names(refusal({"--pipeline.mode", "pinned"}, 40 * GiB), "host memory"));
  EXPECT_TRUE(names(refusal({"--pipeline.gpu-memory", "100kB"}, GiB), "--pipeline.gpu-memory"));
}

}  // namespace
}  // namespace shardstream::pipeline
