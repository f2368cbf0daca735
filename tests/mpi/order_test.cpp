// Order statistics of a run in which one rank computes wrongly: a wrong count is reported, and a
// wrong sample only costs passes.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/order/digits.hpp"
#include "kernels/order/partition.hpp"
#include "mpi/host_options.hpp"
#include "support/forwarding_device.hpp"
#include "support/forwarding_stream.hpp"
#include "support/session.hpp"
#include "workloads/reduce/reduce.hpp"

namespace shardstream::workloads {
namespace {

using Number = float;

struct FlipArgs {
  std::uint64_t* count;
};
void flip(const FlipArgs& args, unsigned part, unsigned) {
  if (part == 0) *args.count ^= 1;
}

/// Key i is first + i * step.
struct FillArgs {
  std::uint32_t* keys;
  std::uint64_t count;
  std::uint32_t first, step;
};
void fill(const FillArgs& args, unsigned part, unsigned parts) {
  const Rows mine = rows_of(args.count, part, parts);
  for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
    args.keys[i] = args.first + static_cast<std::uint32_t>(i) * args.step;
  }
}

/// Enqueues work on the stream after a kernel.
using After = std::function<void(device::Stream&, const device::KernelLaunch&)>;

class FaultyStream final : public test::ForwardingStream {
 public:
  FaultyStream(std::unique_ptr<device::Stream> inner, const After& after)
      : ForwardingStream(std::move(inner)), after_(after) {}

 protected:
  void launch_erased(const device::KernelLaunch& launch) override {
    ForwardingStream::launch_erased(launch);
    after_(inner(), launch);
  }

 private:
  const After& after_;
};

class FaultyDevice final : public test::ForwardingDevice {
 public:
  FaultyDevice(std::unique_ptr<device::Device> inner, const After& after)
      : ForwardingDevice(std::move(inner)), after_(after) {}

  std::unique_ptr<device::Stream> make_stream(device::Priority priority) override {
    return std::make_unique<FaultyStream>(ForwardingDevice::make_stream(priority), after_);
  }

 private:
  const After& after_;
};

/// The median of 0, 1, 2, ..., of more elements than a rank collects. On the last rank, or on all,
/// `after` follows each kernel.
Outcome run(const After& after, bool on_all_ranks, const std::string& ops = "median") {
  const int ranks = test::session().size();
  const auto count = std::to_string(ranks * 1'500'000 + 1);
  const Options options = test::host_options(
      1, {"--input.data", "ramp", "--input.count", count, "--reduce.ops", ops, "--pipeline.mode",
          "resident", "--measure.repeat", "1", "--measure.warmup", "0"});
  Log log;
  runtime::Runtime runtime(test::session(), options, log);
  if (on_all_ranks || test::session().rank() + 1 == ranks) {
    runtime.device = std::make_unique<FaultyDevice>(std::move(runtime.device), after);
  }
  return reduce_workload().open(options)->run(runtime, {});
}

/// Flips a bit of the count of the first elements in a launch of the partition.
Outcome run_with_flip(int launches_before) {
  const After after = [&](device::Stream& stream, const device::KernelLaunch& launch) {
    if (std::string_view(launch.name) != order::partition_kernel<Number>().name) return;
    if (launches_before-- != 0) return;
    const auto& args = *static_cast<const order::PartitionArgs<Number>*>(launch.args);
    stream.launch(Kernel<FlipArgs>{"flip", flip, nullptr}, {args.counts + 1});
  };
  return run(after, false);
}

void expect_median(const Outcome& outcome) {
  const auto ranks = static_cast<double>(test::session().size());
  EXPECT_EQ(outcome.verified, Verification::passed) << outcome.verdict;
  ASSERT_EQ(outcome.results.size(), 1U);
  EXPECT_EQ(outcome.results[0].rows()[0].get<double>("value"), ranks * 750'000);
}

std::int64_t passes_of(const Outcome& outcome) {
  for (const Metric& metric : outcome.metrics) {
    if (metric.key == "passes") return std::get<std::int64_t>(metric.value);
  }
  return 0;
}

TEST(OrderFaults, ARunWithoutFaultsTakesOnePass) {
  const Outcome outcome = run_with_flip(1000);
  expect_median(outcome);
  EXPECT_EQ(passes_of(outcome), 1);
}

TEST(OrderFaults, AFlippedCountIsCaught) {
  for (const int launches_before : {0, 1}) {  // of the pass, of the last pass
    const Outcome outcome = run_with_flip(launches_before);
    EXPECT_EQ(outcome.verified, Verification::failed);
    EXPECT_FALSE(outcome.verdict.empty());
  }
}

TEST(OrderFaults, AFlippedCountOfASampledRangeIsCaught) {
  const Outcome outcome = run_with_flip(2);
  EXPECT_EQ(outcome.verified, Verification::failed);
  EXPECT_NE(outcome.verdict.find("sampled"), std::string::npos) << outcome.verdict;
}

/// Replaces the sampled keys on all ranks. `steps` are those of each launch of the partition.
Outcome run_with_sample(std::uint32_t first, std::uint32_t step, std::vector<order::Steps>& steps) {
  const After after = [&](device::Stream& stream, const device::KernelLaunch& launch) {
    if (std::string_view(launch.name) == order::sample_kernel<Number>().name) {
      const auto& args = *static_cast<const order::SampleArgs<Number>*>(launch.args);
      stream.launch(Kernel<FillArgs>{"fill", fill, nullptr},
                    {args.keys, args.capacity, first, step});
    }
    if (std::string_view(launch.name) == order::partition_kernel<Number>().name) {
      const auto& args = *static_cast<const order::PartitionArgs<Number>*>(launch.args);
      steps.push_back(args.locator.steps());
    }
  };
  return run(after, true, "median,quantile(0.01,0.99)");
}

TEST(OrderFaults, ASampleOfEqualKeysCostsPasses) {
  std::vector<order::Steps> steps;
  const Outcome outcome = run_with_sample(order::key_of(1.0F), 0, steps);
  expect_median(outcome);
  EXPECT_GT(passes_of(outcome), 2);
}

TEST(OrderFaults, TheSampleDecidesTheStepsOfTheLocator) {
  std::vector<order::Steps> steps;
  expect_median(run_with_sample(order::key_of(1.0F), 1, steps));  // adjacent numbers
  EXPECT_EQ(steps.front(), order::Steps::of_value);
  steps.clear();
  expect_median(run_with_sample(order::lowest_key<Number>, 150'000, steps));  // of all magnitudes
  EXPECT_EQ(steps.front(), order::Steps::of_key);
}

}  // namespace
}  // namespace shardstream::workloads
