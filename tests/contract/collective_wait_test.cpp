// When a rank counts as waiting for others. A kernel that waits for a gate replaces the collective.
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
  static void enqueue(device::Stream& stream, std::atomic<bool>& open) {
    stream.launch(gate, {&open});
  }
  void collective(device::Stream& stream, std::atomic<bool>& open) {
    wait_.begin(stream);
    enqueue(stream, open);
    wait_.end(stream);
  }
  static void let_go(std::atomic<bool>& open) {
    open = true;
    open.notify_all();
  }
  /// Whether the rank's state becomes this one within ten seconds.
  bool comes_to(bool waiting) const {
    for (int i = 0; i < 1000 && heartbeat_.pulse().waiting != waiting; ++i) {
      std::this_thread::sleep_for(10ms);
    }
    return heartbeat_.pulse().waiting == waiting;
  }
  /// Whether the state stays the same for longer than the interval between two polls.
  bool waits_for_a_while() const {
    for (int i = 0; i < 20; ++i) {
      if (heartbeat_.pulse().waiting) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

  ranks::Heartbeat heartbeat_;
  std::unique_ptr<device::Device> device_ = device::host::make_device(1);
  std::unique_ptr<device::Stream> stream_ = device_->make_stream();
  CollectiveWait wait_{*device_, heartbeat_};
};

/// No thread waits for the stream itself, since the rank's threads may wait for any later work.
TEST_F(CollectiveWaitTest, LastsFromTheEndOfEarlierWorkToTheEndOfTheCollective) {
  for (int round = 0; round < 3; ++round) {
    std::atomic<bool> own = false, all = false;
    enqueue(*stream_, own);
    collective(*stream_, all);
    EXPECT_FALSE(waits_for_a_while());
    let_go(own);
    EXPECT_TRUE(comes_to(true));
    let_go(all);
    EXPECT_TRUE(comes_to(false));
    stream_->synchronize();  // afterwards no thread uses the gates
  }
}

TEST_F(CollectiveWaitTest, ContinuesInTheNextCollective) {
  std::atomic<bool> first = false, second = false;
  collective(*stream_, first);
  collective(*stream_, second);
  EXPECT_TRUE(comes_to(true));
  let_go(first);
  std::this_thread::sleep_for(150ms);
  EXPECT_TRUE(comes_to(true));
  let_go(second);
  EXPECT_TRUE(comes_to(false));
  stream_->synchronize();
}

/// A collective that a stream has not reached yet neither counts nor hides that of another stream.
TEST_F(CollectiveWaitTest, IsSeenOnEveryStream) {
  const auto other = device_->make_stream();
  std::atomic<bool> own = false, first = false, second = false;
  collective(*other, first);
  EXPECT_TRUE(comes_to(true));  // it occupies the team, which executes one kernel at a time
  enqueue(*stream_, own);
  collective(*stream_, second);
  std::this_thread::sleep_for(150ms);
  EXPECT_TRUE(heartbeat_.pulse().waiting);
  let_go(first);
  EXPECT_TRUE(comes_to(false));
  let_go(own);
  EXPECT_TRUE(comes_to(true));
  let_go(second);
  other->synchronize();
  stream_->synchronize();
}

TEST_F(CollectiveWaitTest, EndsWhenAllWorkIsDone) {
  for (int round = 0; round < 50; ++round) {
    std::atomic<bool> all = false;
    collective(*stream_, all);
    if (round == 0) {
      EXPECT_TRUE(comes_to(true));
    }
    let_go(all);
    wait_.synchronize(*stream_);
    EXPECT_FALSE(heartbeat_.pulse().waiting);
  }
}

TEST_F(CollectiveWaitTest, NeedsACollective) {
  std::atomic<bool> own = false;
  enqueue(*stream_, own);
  EXPECT_FALSE(waits_for_a_while());
  let_go(own);
  wait_.synchronize(*stream_);
}

TEST_F(CollectiveWaitTest, AnErrorEndsIt) {
  std::atomic<bool> all = false;
  wait_.begin(*stream_);
  enqueue(*stream_, all);
  stream_->launch(failure, {nullptr});
  wait_.end(*stream_);
  EXPECT_TRUE(comes_to(true));
  let_go(all);
  EXPECT_THROW(wait_.synchronize(*stream_), std::runtime_error);
  EXPECT_TRUE(comes_to(false));
}

}  // namespace
}  // namespace shardstream::comm
