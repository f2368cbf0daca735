// When a rank counts as waiting for others: a collective is played by a kernel that goes on when it
// is told to.
#include "comm/collective_wait.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "device/host/host_device.hpp"

namespace shardstream::comm {
namespace {

using namespace std::chrono_literals;

struct GateArgs {
  std::atomic<bool>* open;
};

constexpr Kernel<GateArgs> gate{
    "gate", [](const GateArgs& args, unsigned, unsigned) { args.open->wait(false); }, nullptr};

constexpr Kernel<GateArgs> failure{
    "failure",
    [](const GateArgs&, unsigned, unsigned) { throw std::runtime_error("the device is lost"); },
    nullptr};

class CollectiveWaitTest : public testing::Test {
 protected:
  void enqueue(std::atomic<bool>& open) { stream_->launch(gate, {&open}); }
  static void let_go(std::atomic<bool>& open) {
    open = true;
    open.notify_all();
  }
  /// Whether it is so within ten seconds.
  bool comes_to_wait() const {
    for (int i = 0; i < 1000 && !heartbeat_.pulse().waiting; ++i) std::this_thread::sleep_for(10ms);
    return heartbeat_.pulse().waiting;
  }

  launch::Heartbeat heartbeat_;
  std::unique_ptr<device::Device> device_ = device::host::make_device(1);
  std::unique_ptr<device::Stream> stream_ = device_->make_stream();
  CollectiveWait wait_{*device_, heartbeat_};
};

TEST_F(CollectiveWaitTest, BeginsWhereTheRanksOwnWorkEnds) {
  for (int round = 0; round < 3; ++round) {
    std::atomic<bool> own = false, collective = false;
    enqueue(own);
    wait_.begin(*stream_);
    enqueue(collective);
    std::thread waiter([&] { wait_.end(*stream_); });
    std::this_thread::sleep_for(50ms);
    EXPECT_FALSE(heartbeat_.pulse().waiting);
    let_go(own);
    EXPECT_TRUE(comes_to_wait());
    let_go(collective);
    waiter.join();
    EXPECT_FALSE(heartbeat_.pulse().waiting);
  }
}

/// The second collective comes after the first, and so after other ranks.
TEST_F(CollectiveWaitTest, CountsFromTheFirstOfSeveralCollectives) {
  std::atomic<bool> first = false, second = false;
  wait_.begin(*stream_);
  enqueue(first);
  wait_.begin(*stream_);
  enqueue(second);
  std::thread waiter([&] { wait_.end(*stream_); });
  EXPECT_TRUE(comes_to_wait());
  let_go(first);
  let_go(second);
  waiter.join();
}

TEST_F(CollectiveWaitTest, WithoutACollectiveNobodyIsWaitedFor) {
  std::atomic<bool> own = false;
  enqueue(own);
  std::thread waiter([&] { wait_.end(*stream_); });
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(heartbeat_.pulse().waiting);
  let_go(own);
  waiter.join();
}

TEST_F(CollectiveWaitTest, AnErrorEndsTheWait) {
  wait_.begin(*stream_);
  stream_->launch(failure, {nullptr});
  EXPECT_THROW(wait_.end(*stream_), std::runtime_error);
  EXPECT_FALSE(heartbeat_.pulse().waiting);
}

}  // namespace
}  // namespace shardstream::comm
