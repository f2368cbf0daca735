// A product takes the memory that was planned for it, and no more; tiles that get products while a
// batch is waited for have the same bits.
#include "workloads/product/product.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "kernels/gemm/multiply/multiply.hpp"
#include "mpi/host_options.hpp"
#include "support/errors.hpp"
#include "support/forwarding_communicator.hpp"
#include "support/forwarding_device.hpp"
#include "support/forwarding_stream.hpp"
#include "support/matrices.hpp"
#include "support/session.hpp"
#include "support/uniform_source.hpp"
#include "workloads/gemm/gemm.hpp"
#include "workloads/gram/gram.hpp"
#include "workloads/product/engine/copy_rows.hpp"
#include "workloads/product/engine/normalization/normalizer.hpp"

namespace shardstream::workloads::product {
namespace {

using test::session;

/// Bytes that there have been at most at a time, of device memory in whole 256 bytes and of all
/// kinds.
struct Peak {
  std::uint64_t device = 0, all = 0;
};

/// Counts the launches of products.
class CountingStream final : public test::ForwardingStream {
 public:
  CountingStream(std::unique_ptr<device::Stream> inner, std::atomic<std::uint64_t>& products)
      : ForwardingStream(std::move(inner)), products_(products) {}

 protected:
  void launch_erased(const device::KernelLaunch& launch) override {
    ForwardingStream::launch_erased(launch);
    if (std::string_view(launch.name) == gemm::multiply_kernel().name) ++products_;
  }

 private:
  std::atomic<std::uint64_t>& products_;
};

/// Counts memory, and launches of products.
class CountingDevice final : public test::ForwardingDevice {
 public:
  CountingDevice(std::unique_ptr<device::Device> inner, Peak& peak,
                 std::atomic<std::uint64_t>& products)
      : ForwardingDevice(std::move(inner)), peak_(peak), products_(products) {}

  std::unique_ptr<device::Stream> make_stream(device::Priority priority) override {
    return std::make_unique<CountingStream>(ForwardingDevice::make_stream(priority), products_);
  }
  void* allocate(device::Memory kind, std::size_t bytes) override {
    void* const data = ForwardingDevice::allocate(kind, bytes);
    const std::lock_guard lock(mutex_);
    all_ += bytes;
    if (kind == device::Memory::device) device_ += aligned(bytes);
    peak_.all = std::max(peak_.all, all_);
    peak_.device = std::max(peak_.device, device_);
    return data;
  }
  void release(device::Memory kind, void* data, std::size_t bytes) noexcept override {
    ForwardingDevice::release(kind, data, bytes);
    const std::lock_guard lock(mutex_);
    all_ -= bytes;
    if (kind == device::Memory::device) device_ -= aligned(bytes);
  }

 private:
  Peak& peak_;
  std::atomic<std::uint64_t>& products_;
  std::mutex mutex_;
  std::uint64_t device_ = 0, all_ = 0;
};

/// What `run` has for a product, up to its buffers.
struct Prepared {
  const Options options;
  Peak peak;
  std::atomic<std::uint64_t> products = 0;  ///< launches
  Log log;
  runtime::Runtime runtime{session(), options, log};
  pipeline::StagingSizes staging = pipeline::staging_sizes(options, runtime.resources);
  unsigned streams;  ///< that tiles take turns on: a GPU's plan has two
  Operands operands;
  Plan plan;
  std::unique_ptr<gemm::MultiplyPlan> library;

  Prepared(bool gram, const std::vector<std::string>& words, unsigned side_by_side = 1)
      : options(test::host_options(2, words)), streams(side_by_side) {
    runtime.device = std::make_unique<CountingDevice>(std::move(runtime.device), peak, products);
    runtime.resources.process_memory = 0;  // only buffers are counted
    operands = gram ? open_gram(options) : open_gemm(options);
    plan_with(std::uint64_t{1} << 30);
    library = gemm::make_multiply_plan(operands.precision, plan.problem().tile, Backend::host);
  }

  /// `tile`: another tile than that of the host, with this decomposition.
  void plan_with(std::uint64_t device_memory, std::optional<gemm::Tile> tile = std::nullopt,
                 Decomposition decomposition = Decomposition::automatic) {
    Problem problem = problem_of(operands, options, ranks(), {device_memory}, Backend::host);
    if (tile) {
      problem.tile = *tile;
      problem.ranks.other_bytes =
          Panels::other_bytes(operands, *tile) + VariableSums::device_bytes(operands, problem);
      problem.requested.decomposition = decomposition;
    }
    problem.ranks.streams = streams;
    plan = make_plan(problem, {.link_up = 1e9, .link_down = 1e15, .gather = 1e15, .flops = 1e18},
                     static_cast<std::uint64_t>(session().rank()));
  }

  static std::uint64_t ranks() { return static_cast<std::uint64_t>(session().size()); }

  /// C is not stored.
  std::unique_ptr<Engine> make() {
    return std::make_unique<Engine>(runtime, operands, plan, *library, staging,
                                    std::span<const io::RangeWriter>(), nullptr);
  }
  /// Allocates everything and runs once. This rank's part of C's checksum.
  std::uint64_t run() {
    const auto product = make();
    product->load();
    if (operands.normalizes()) {
      Normalizer normalizer(runtime, operands, staging.readers);
      normalizer.run(*product);
      EXPECT_EQ(normalizer.passes(), 1U);
    } else {
      product->run();
    }
    EXPECT_EQ(product->checks().failure, "");
    return product->checksum();
  }
};

struct Case {
  const char* what;
  bool gram;
  std::vector<std::string> words;
};

/// Small, but with two rows of tiles or more, and several blocks of K, unless residues are
/// multiplied.
std::vector<Case> cases() {
  const std::vector<std::string> sizes{"--gemm.m", "340", "--gemm.n", "330", "--gemm.k", "2560"};
  const std::vector<std::string> samples{"--gram.rows", "2560", "--gram.columns", "340"};
  const std::vector<std::string> turned{"--gram.rows", "340", "--gram.columns", "2560"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::vector<std::string> unstored{"--output.store", "false"};
  std::vector<Case> all;
  for (const gemm::Precision precision : gemm::all_precisions) {
    const std::vector<std::string> of{"--product.precision", std::string(word_of(precision)),
                                      "--output.store", "false"};
    all.push_back({"gemm", false, with(sizes, of)});
    all.push_back({"gram", true, with(samples, of)});
    if (precision == gemm::Precision::int8) continue;
    all.push_back({"bytes", false, with(with(sizes, of), {"--input.type", "u8"})});
    all.push_back({"with C", false,
                   with(with(sizes, of),
                        {"--gemm.beta", "1", "--input.c", "uniform", "--input.type", "f64"})});
    all.push_back({"centred", true, with(with(samples, of), {"--gram.center", "true"})});
    all.push_back({"correlation", true,
                   with(with(turned, of),
                        {"--gram.of", "rows", "--gram.center", "true", "--gram.scale", "true"})});
  }
  all.push_back({"mirrored", true, samples});
  const std::vector<std::string> centred = with(unstored, {"--gram.center", "true"});
  all.push_back(
      {"complete samples", true, with(with(samples, centred), {"--gram.missing", "complete"})});
  all.push_back(
      {"centred over the variables", true,
       with(with(turned, centred), {"--gram.of", "rows", "--gram.center-over", "variables"})});
  all.push_back(
      {"transposed", false,
       with(with(sizes, unstored), {"--gemm.transpose-a", "true", "--gemm.transpose-b", "true"})});
  if (session().size() > 1) {
    all.push_back(
        {"grid", false, with(with(sizes, unstored), {"--product.decomposition", "grid"})});
    all.push_back({"split-k", false,
                   with(unstored, {"--product.decomposition", "split-k", "--gemm.m", "400",
                                   "--gemm.n", "70", "--gemm.k", "6500"})});
    const std::vector<std::string> one{"--product.box",
                                       "1x1x1"};  // all ranks but the first are idle
    all.push_back({"idle", false, with(with(sizes, unstored), one)});
    all.push_back({"idle, with C", false,
                   with(with(sizes, one), {"--gemm.beta", "1", "--input.c", "uniform"})});
    all.push_back({"idle, mirrored", true, with(samples, one)});
    all.push_back({"idle, correlation", true,
                   with(with(samples, one), {"--gram.center", "true", "--gram.scale", "true"})});
  }
  return all;
}

std::string told(const Case& each) {
  return fmt::format("{} on rank {}, {} {} {}", each.what, session().rank(), each.words[0],
                     each.words[1], each.words.back());
}

TEST(Product, DeviceMemoryIsAsPlanned) {
  for (const Case& each : cases()) {
    Prepared prepared(each.gram, each.words, 2);
    prepared.run();
    const std::uint64_t planned = prepared.plan.device_bytes;
    EXPECT_LE(prepared.peak.device, planned) << told(each);
    if (prepared.plan.part.idle) {
      EXPECT_EQ(planned, prepared.plan.problem().ranks.other_bytes) << told(each);
      EXPECT_EQ(prepared.peak.all, 0U) << told(each);
    }
    // Rank 0 has the most of everything, but sums of variables have room for any decomposition.
    const bool whole = session().size() == 1 || !prepared.operands.normalizes();
    if (session().rank() == 0 && whole) {
      EXPECT_EQ(prepared.peak.device, planned) << told(each);
    }
  }
}

/// Only GPUs have narrow tiles, but plan and engine treat them alike on every backend.
TEST(Product, NarrowProductsHaveTheSameBitsAndThePlannedMemoryInEveryDecomposition) {
  const gemm::Tile tile{.m = 8, .n = 8, .k = 4096, .lanes = 4, .fold = 8};
  for (const char* const centers : {"false", "true"}) {
    std::optional<std::uint64_t> checksum;
    for (const Decomposition each : {Decomposition::rows, Decomposition::split_k}) {
      Prepared prepared(true, {"--gram.rows", "40000", "--gram.columns", "5", "--gram.center",
                               centers, "--output.store", "false"});
      prepared.plan_with(std::uint64_t{1} << 30, tile, each);
      prepared.library = gemm::make_multiply_plan(prepared.operands.precision, tile, Backend::host);
      std::uint64_t all = 0;
      for (const std::uint64_t rank : session().gather(std::vector{prepared.run()})) all += rank;
      EXPECT_EQ(checksum.value_or(all), all) << word_of(each) << ", centred: " << centers;
      checksum = all;
      EXPECT_LE(prepared.peak.device, prepared.plan.device_bytes) << word_of(each);
    }
  }
}

TEST(Product, TooLittleHostMemoryIsAnError) {
  for (const Case& each : cases()) {
    for (const char* const mode : {"stream", "pageable", "pinned"}) {
      std::vector<std::string> words = each.words;
      words.insert(words.end(), {"--pipeline.mode", mode});
      Prepared prepared(each.gram, words);
      prepared.run();
      // Less than any of them needs that is not idle, and more than idle ones do.
      const double mine = static_cast<double>(prepared.peak.all);
      const auto min = static_cast<std::uint64_t>(-session().max(
          prepared.plan.part.idle ? -std::numeric_limits<double>::infinity() : -mine));
      auto& resources = prepared.runtime.resources;
      resources.host_memory = (min - 1) * resources.ranks_on_host;
      try {
        prepared.make();
        EXPECT_TRUE(prepared.plan.part.idle) << "not refused: " << told(each) << ", " << mode;
      } catch (const UsageError& error) {
        EXPECT_FALSE(prepared.plan.part.idle) << told(each) << ", " << mode;
        const bool holds_none = mode == std::string("stream");
        EXPECT_TRUE(test::names(error.what(),
                                holds_none ? "--pipeline.gpu-memory" : "--pipeline.mode stream"));
      }
    }
  }
}

TEST(Product, APrecisionWhoseUnitsAGpuLacksIsAnError) {
  using gemm::Precision;
  for (const Precision each : {Precision::fp64_int8, Precision::fp32_int8, Precision::int8}) {
    const std::string message = test::error_of([&] { check_units(each, 70); });
    EXPECT_TRUE(test::names(
        message, std::string(word_of(each)), "7.5", "7.0",
        each == Precision::fp64_int8 ? "--product.precision fp64" : "--product.precision fp32"))
        << message;
    EXPECT_NO_THROW(check_units(each, 75));
    EXPECT_NO_THROW(check_units(each, 0));
  }
  EXPECT_NO_THROW(check_units(Precision::fp64, 60));
}

/// Where most of it are slots, less device memory would not help.
TEST(Product, TheErrorNamesTheOptionThatTakesTheMemory) {
  Prepared prepared(false, {"--pipeline.slots", "64", "--gemm.m", "10", "--gemm.n", "10",
                            "--product.decomposition", "rows"});  // of which no rank is idle
  auto& resources = prepared.runtime.resources;
  resources.host_memory = (std::uint64_t{64} << 20) * resources.ranks_on_host;
  const std::string message = test::error_of([&] { prepared.make(); });
  EXPECT_TRUE(test::names(message, "--pipeline.readers", "--pipeline.slots"));
}

/// Those whose tiles share scratch memory, C0's, or mirrors.
TEST(Product, TilesHaveTheSameBitsOnTwoStreams) {
  for (const Case& each : cases()) {
    const std::string what = each.what;
    if (what != "with C" && what != "mirrored" && what != "correlation") continue;
    const std::uint64_t one = Prepared(each.gram, each.words, 1).run();
    EXPECT_EQ(Prepared(each.gram, each.words, 2).run(), one) << told(each);
  }
}

// ---------------------------------------------------------------- tiles while batches come

/// Holds back what stands in column `from` and on until as many products have been launched.
class LateSource final : public test::UniformSource {
 public:
  LateSource(std::uint64_t rows, std::uint64_t columns, std::uint64_t from,
             const std::atomic<std::uint64_t>& products, std::uint64_t wanted)
      : UniformSource(rows, columns),
        columns_(columns),
        from_(from),
        products_(products),
        wanted_(wanted) {}

  void read(std::uint64_t first, std::uint64_t count, std::byte* out) const override {
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (first % columns_ >= from_ && products_ < wanted_) {
      if (std::chrono::steady_clock::now() > late) throw Error("no tile was multiplied meanwhile");
      std::this_thread::yield();
    }
    UniformSource::read(first, count, out);
  }

 private:
  std::uint64_t columns_, from_;
  const std::atomic<std::uint64_t>& products_;
  std::uint64_t wanted_;
};

/// How many products are launched before the first super-tile's last batch is there.
enum class Sweep { none, one, all };

/// The checksum of a product in `super_tiles` or more, whose windows take all batches of a
/// super-tile but with Sweep::none.
std::uint64_t checksum(Sweep sweep, std::uint64_t super_tiles, unsigned streams = 1) {
  Prepared prepared(false,
                    {"--gemm.m", "1700", "--gemm.n", "1400", "--gemm.k", "2560",
                     "--product.decomposition", "rows", "--output.store", "false"},
                    streams);
  Plan& plan = prepared.plan;
  for (std::uint64_t memory = plan.device_bytes; plan.super_tiles() < super_tiles;) {
    memory = memory * 9 / 10;
    prepared.plan_with(memory);
  }
  const std::uint64_t blocks = plan.part.blocks.count;
  const std::uint64_t first_tiles = plan.shape.count_tiles(plan.super_tile(0));
  EXPECT_GE(blocks, 3U);
  plan.schedule.window = 1;
  if (sweep != Sweep::none) plan.schedule.window = plan.schedule.ring_batches = blocks;
  std::uint64_t wanted = 0;
  if (sweep == Sweep::one && first_tiles > 0) wanted = 1;
  // In launches of four tiles for each of two threads.
  if (sweep == Sweep::all) wanted = ceil_div(first_tiles, 8) * (blocks - 1);
  const std::uint64_t last = plan.shape.depth({0, blocks - 1}).count;
  prepared.operands.a =
      test::matrix_of(std::make_unique<LateSource>(1700, 2560, last, prepared.products, wanted));
  const auto product = prepared.make();
  product->load();
  for (int round = 0; round < 2; ++round) {  // the second is not held back
    product->run();
    EXPECT_EQ(product->checks().failure, "");
  }
  return product->checksum();
}

TEST(Product, TilesHaveTheSameBitsIfTheyAreMultipliedWhileABatchIsWaitedFor) {
  for (const std::uint64_t super_tiles : {1, 2}) {
    const std::uint64_t plain = checksum(Sweep::none, super_tiles);
    for (const Sweep sweep : {Sweep::one, Sweep::all}) {
      EXPECT_EQ(checksum(sweep, super_tiles), plain)
          << static_cast<int>(sweep) << ", super-tiles " << super_tiles;
    }
    EXPECT_EQ(checksum(Sweep::one, super_tiles, 2), plain) << "two streams, " << super_tiles;
  }
}

/// Blocks, and holds back the first panel's gathers until readers have brought all others, and what
/// comes behind them until a product has been launched.
class LateGathers final : public test::ForwardingCommunicator {
 public:
  LateGathers(std::unique_ptr<comm::Communicator> inner, const std::atomic<std::uint64_t>& products)
      : ForwardingCommunicator(std::move(inner)), products_(products) {}

  bool blocks() const override { return true; }
  void all_gather(device::Stream& stream, const void* send, void* receive,
                  std::size_t bytes) override {
    constexpr std::uint64_t of_a_batch = 2;  // B's panel, and what C is checked by
    if (gathers_++ < of_a_batch) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    } else if (products_ == 0) {
      throw Error("no tile was multiplied before the second panel was gathered");
    }
    ForwardingCommunicator::all_gather(stream, send, receive, bytes);
  }

 private:
  const std::atomic<std::uint64_t>& products_;
  std::uint64_t gathers_ = 0;
};

TEST(Product, TheDeviceHasWorkWhileAGatherBlocks) {
  if (session().size() == 1) GTEST_SKIP() << "nothing is gathered";
  Prepared prepared(false, {"--gemm.m", "1700", "--gemm.n", "1400", "--gemm.k", "5000",
                            "--product.decomposition", "rows", "--output.store", "false"});
  ASSERT_FALSE(prepared.plan.part.idle);
  prepared.plan.schedule.window = prepared.plan.schedule.ring_batches =
      prepared.plan.part.blocks.count;
  prepared.runtime.communicator =
      std::make_unique<LateGathers>(std::move(prepared.runtime.communicator), prepared.products);
  prepared.run();
}

}  // namespace
}  // namespace shardstream::workloads::product
