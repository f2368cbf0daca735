// The resolved values of the [pipeline] options.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "core/error.hpp"
#include "pipeline/pipeline_options.hpp"
#include "pipeline/stream_limits.hpp"
#include "support/errors.hpp"
#include "support/pipeline_inputs.hpp"

namespace shardstream::pipeline {
namespace {

using test::error_of;
using test::names;

constexpr std::uint64_t MiB = std::uint64_t{1} << 20, GiB = std::uint64_t{1} << 30;
constexpr std::uint64_t leaf = 65536, f32 = 4;
constexpr ElementSize elements{.stored = f32, .element = f32};
/// Packed i16 of f64, which readers or a device convert.
constexpr ElementSize packed(Converter converter) {
  return {.converter = converter, .stored = 2, .element = 8};
}

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
  return choose_sizes(options_of(arguments), resources, {shard, elements, {}},
                      {.unit = leaf, .per_unit = 80, .fixed = extra});
}

Sizes packed_sizes(Converter converter, const std::vector<std::string>& arguments,
                   std::uint64_t shard, const runtime::Resources& resources = machine()) {
  return choose_sizes(options_of(arguments), resources, {shard, packed(converter), {}},
                      {.unit = leaf, .per_unit = 80});
}

std::string refusal(const std::vector<std::string>& arguments, std::uint64_t shard) {
  return error_of([&] { plan_for(arguments, shard); });
}

/// The size after "--pipeline.batch" in a message; empty if there is none.
std::string suggested_batch(const std::string& message) {
  const std::string option = "--pipeline.batch ";
  const auto at = message.find(option);
  if (at == message.npos) return {};
  const auto begin = at + option.size();
  return message.substr(begin, message.find(' ', begin) - begin);
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
    return choose_sizes(options_of({}), one, {GiB, elements, decoding},
                        {.unit = leaf, .per_unit = 80});
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
    return choose_sizes(options_of(words), host, {GiB, elements, {}},
                        {.unit = leaf, .per_unit = 80});
  };
  EXPECT_EQ(sizes_in(500 * MiB).batch * f32, 64 * MiB);
  const std::string message = error_of([&] { sizes_in(260 * MiB); });
  const std::string fits = suggested_batch(message);
  ASSERT_FALSE(fits.empty()) << message;
  const Sizes sizes = sizes_in(260 * MiB, {"--pipeline.batch", fits});
  EXPECT_LE(sizes.device_bytes() + sizes.host_bytes(GiB) + host.process_memory, 260 * MiB);
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
  const std::string size = suggested_batch(too_large);
  ASSERT_FALSE(size.empty()) << too_large;
  EXPECT_NO_THROW(plan_for({"--pipeline.batch", size}, 400 * GiB)) << size;

  const auto resident = refusal({"--pipeline.mode", "resident"}, 40 * GiB);
  EXPECT_TRUE(names(resident, "--pipeline.mode stream"));
  EXPECT_TRUE(names(refusal({"--pipeline.mode", "pinned"}, 40 * GiB), "host memory"));
  EXPECT_TRUE(names(refusal({"--pipeline.gpu-memory", "100kB"}, GiB), "--pipeline.gpu-memory"));
}

TEST(Plan, ADeviceConvertsValuesThatAlwaysFit) {
  const test::PackedSource source(10), may_not_fit(10, 0, ElementType::f32);
  EXPECT_EQ(element_size(test::RampSource(10), Backend::cuda).converter, Converter::none);
  EXPECT_EQ(element_size(source, Backend::cuda).converter, Converter::device);
  EXPECT_EQ(element_size(source, Backend::cuda).moved(), 2U);
  EXPECT_EQ(element_size(source, Backend::host).converter, Converter::readers);
  EXPECT_EQ(element_size(source, Backend::host).moved(), 8U);
  EXPECT_EQ(element_size(may_not_fit, Backend::cuda).converter, Converter::readers);
  EXPECT_EQ(element_size(may_not_fit, Backend::cuda).moved(), 4U);
}

TEST(Plan, ADeviceThatConvertsHasMemoryForOneBatch) {
  const Sizes sizes = packed_sizes(Converter::device, {}, 4 * GiB);
  EXPECT_EQ(sizes.batch * 2, 64 * MiB);
  EXPECT_EQ(sizes.slot * 2, 4 * MiB);
  EXPECT_EQ(sizes.converted, sizes.batch);
  EXPECT_EQ(sizes.device_bytes(), 3 * 64 * MiB + 4 * 64 * MiB);
  EXPECT_EQ(sizes.host_bytes(4 * GiB), sizes.slots * 4 * MiB);
  EXPECT_EQ(sizes.bytes_of_pass(), 2U);
  const Sizes mapped = packed_sizes(Converter::device, {"--pipeline.mode", "mapped"}, GiB);
  EXPECT_EQ(mapped.device_bytes(), 4 * 64 * MiB);
  EXPECT_GE(mapped.host_bytes(GiB), 2 * GiB);
  EXPECT_EQ(mapped.bytes_of_pass(), 2U);
}

TEST(Plan, AResidentShardIsConvertedWhenItIsLoaded) {
  const std::vector<std::string> resident = {"--pipeline.mode", "resident"};
  const Sizes sizes = packed_sizes(Converter::device, resident, GiB);
  EXPECT_EQ(sizes.converted, GiB);
  EXPECT_EQ(sizes.device_bytes(), 3 * 64 * MiB + 8 * GiB);
  EXPECT_EQ(sizes.bytes_of_pass(), 8U);
  const Sizes by_readers = packed_sizes(Converter::readers, resident, GiB);
  EXPECT_EQ(by_readers.converted, 0U);
  EXPECT_EQ(by_readers.device_bytes(), 8 * GiB);
  const std::string message =
      error_of([&] { packed_sizes(Converter::device, resident, 12 * GiB); });
  EXPECT_TRUE(names(message, "--pipeline.mode stream")) << message;
}

TEST(Plan, ReadersThatConvertHaveStoredElementsToo) {
  const Sizes sizes = packed_sizes(Converter::readers, {}, 4 * GiB);
  EXPECT_EQ(sizes.slot * 8, 4 * MiB);
  EXPECT_EQ(sizes.device_bytes(), 3 * 64 * MiB);
  EXPECT_EQ(sizes.host_bytes(4 * GiB), sizes.slots * 5 * MiB);
  EXPECT_EQ(sizes.bytes_of_pass(), 2U);
  const Sizes pinned = packed_sizes(Converter::readers, {"--pipeline.mode", "pinned"}, GiB);
  EXPECT_EQ(pinned.host_bytes(GiB), 8 * GiB + pinned.readers * MiB);
  EXPECT_EQ(pinned.bytes_of_pass(), 8U);
}

TEST(Plan, ErrorsNameABatchThatFitsWithItsConversion) {
  const std::vector<std::string> much = {"--pipeline.batch", "64GiB"};
  for (const Converter converter : {Converter::readers, Converter::device}) {
    const std::string message = error_of([&] { packed_sizes(converter, much, 400 * GiB); });
    const std::string size = suggested_batch(message);
    ASSERT_FALSE(size.empty()) << message;
    EXPECT_NO_THROW(packed_sizes(converter, {"--pipeline.batch", size}, 400 * GiB)) << size;
  }
}

}  // namespace
}  // namespace shardstream::pipeline
