// A histogram in whose counts one bit is flipped says so; without a fault it is verified.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "mpi/host_options.hpp"
#include "support/forwarding_device.hpp"
#include "support/forwarding_stream.hpp"
#include "support/session.hpp"
#include "workloads/histogram/count.hpp"
#include "workloads/histogram/histogram.hpp"

namespace shardstream::workloads::histogram {
namespace {

struct FlipArgs {
  std::uint64_t* count;
};
void flip(const FlipArgs& args, unsigned part, unsigned) {
  if (part == 0) *args.count ^= 1;
}

/// Flips a bit of a counter after a launch of the kernel.
class FlippingStream final : public test::ForwardingStream {
 public:
  FlippingStream(std::unique_ptr<device::Stream> inner, int& launches_before)
      : ForwardingStream(std::move(inner)), launches_before_(launches_before) {}

 protected:
  void launch_erased(const device::KernelLaunch& launch) override {
    ForwardingStream::launch_erased(launch);
    if (std::string_view(launch.name) != count_kernel<float>().name) return;
    if (launches_before_-- != 0) return;
    const auto& args = *static_cast<const CountArgs<float>*>(launch.args);
    inner().launch(Kernel<FlipArgs>{"flip", flip, nullptr}, {args.counts + 3});
  }

 private:
  int& launches_before_;
};

class FlippingDevice final : public test::ForwardingDevice {
 public:
  FlippingDevice(std::unique_ptr<device::Device> inner, int& launches_before)
      : ForwardingDevice(std::move(inner)), launches_before_(launches_before) {}

  std::unique_ptr<device::Stream> make_stream(device::Priority priority) override {
    return std::make_unique<FlippingStream>(ForwardingDevice::make_stream(priority),
                                            launches_before_);
  }

 private:
  int& launches_before_;
};

/// A run in which the last rank flips a bit after its first `launches_before` launches; not if it
/// has fewer.
Outcome run(int launches_before) {
  const Options options =
      test::host_options(1, {"--input.count", "500000", "--histogram.range", "0,1",
                             "--measure.repeat", "1", "--measure.warmup", "0"});
  Log log;
  runtime::Runtime runtime(test::session(), options, log);
  if (test::session().rank() + 1 == test::session().size()) {
    runtime.device = std::make_unique<FlippingDevice>(std::move(runtime.device), launches_before);
  }
  return histogram_workload().open(options)->run(runtime, {});
}

TEST(HistogramFaults, RunsWithoutFaultsPass) {
  EXPECT_EQ(run(1000).verified, Verification::passed);
}

TEST(HistogramFaults, AFlippedCountIsCaught) {
  const Outcome outcome = run(0);
  EXPECT_EQ(outcome.verified, Verification::failed);
  EXPECT_NE(outcome.verdict.find("500000"), std::string::npos) << outcome.verdict;
}

TEST(HistogramFaults, AFlippedCountOfASampledRangeIsCaught) {
  const Outcome outcome = run(1);
  EXPECT_EQ(outcome.verified, Verification::failed);
  EXPECT_NE(outcome.verdict.find("sampled"), std::string::npos) << outcome.verdict;
}

}  // namespace
}  // namespace shardstream::workloads::histogram
