// Errors in the host backend's queues, which behave like those of CUDA.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "core/error.hpp"
#include "device/host/host_device.hpp"
#include "device/host/process_memory.hpp"
#include "device/host/team.hpp"
#include "support/errors.hpp"

namespace shardstream::device::host {
namespace {

struct CountArgs {
  std::atomic<int>* calls;
  int throw_at_part;
};

void count_part(const CountArgs& args, unsigned part, unsigned) {
  ++*args.calls;
  if (static_cast<int>(part) == args.throw_at_part) throw std::runtime_error("part failed");
}

constexpr Kernel<CountArgs> count_kernel{"count", count_part, nullptr};

TEST(Team, CallsEveryPartOnce) {
  for (const unsigned size : {1U, 2U, 5U}) {
    Team team(size);
    unsigned all = 0;
    team.run([&](unsigned part, unsigned parts) {
      if (part == 0) all = parts;
    });
    ASSERT_GE(all, size);
    std::vector<std::atomic<int>> calls(all);
    for (int round = 0; round < 50; ++round) {
      team.run([&](unsigned part, unsigned parts) {
        EXPECT_EQ(parts, all);
        ++calls.at(part);
      });
    }
    for (const auto& count : calls) EXPECT_EQ(count, 50);
  }
}

/// If parts were assigned beforehand, a delayed thread would delay its other parts too.
TEST(Team, OtherThreadsExecuteThePartsOfADelayedThread) {
  Team team(2);
  std::atomic<unsigned> done{0};
  team.run([&](unsigned part, unsigned parts) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (part == 0 && done < parts - 1 && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    EXPECT_TRUE(part != 0 || done == parts - 1);
    ++done;
  });
}

TEST(Team, RethrowsAndStaysUsable) {
  Team team(3);
  EXPECT_THROW(team.run([](unsigned part, unsigned) {
    if (part == 2) throw std::runtime_error("no");
  }),
               std::runtime_error);
  int ran = 0;
  team.run([&](unsigned part, unsigned) {
    if (part == 0) ++ran;
  });
  EXPECT_EQ(ran, 1);
}

TEST(HostMemory, AnAllocationThatFailsNamesSizeAndOption) {
  const std::string message =
      test::error_of([] { map_pages(std::size_t{1} << 60); }, ExitCode::failed);
  EXPECT_TRUE(test::names(message, "1 EiB", "host memory", "--pipeline.gpu-memory"));
}

TEST(HostStream, KeepsTheFirstErrorSkipsTheRestAndLetsEventsPass) {
  const auto device = make_device(2);
  const auto stream = device->make_stream(), other = device->make_stream();
  const auto event = device->make_event();
  std::atomic<int> parts{0}, calls{0};
  stream->launch(count_kernel, {&parts, -1});
  stream->launch(count_kernel, {&calls, 1});
  stream->launch(count_kernel, {&calls, -1});
  stream->record(*event);
  other->wait(*event);
  event->synchronize();  // neither hangs
  EXPECT_THROW(other->synchronize(), std::runtime_error);
  EXPECT_THROW(stream->synchronize(), std::runtime_error);
  EXPECT_EQ(calls, parts);  // all parts of the kernel that throws, none of the next kernel
}

/// If the last task in the queue is skipped, a waiting thread must still wake up.
TEST(HostStream, SynchronizeReturnsWhenTheLastTaskIsSkipped) {
  const auto device = make_device(2);
  const auto stream = device->make_stream();
  std::atomic<int> calls{0};
  for (int round = 0; round < 200; ++round) {
    stream->launch(count_kernel, {&calls, 0});
    EXPECT_THROW(stream->synchronize(), std::runtime_error);
  }
}

/// As with CUDA, an error of the upload stream is reported although nothing waits for that stream.
TEST(HostStream, AnErrorIsReportedByEveryStream) {
  const auto device = make_device(1);
  const auto stream = device->make_stream(), other = device->make_stream();
  std::atomic<int> calls{0};
  stream->launch(count_kernel, {&calls, 0});
  EXPECT_THROW(stream->synchronize(), std::runtime_error);
  EXPECT_THROW(other->synchronize(), std::runtime_error);
}

TEST(HostStream, CopiesKernelArguments) {
  const auto device = make_device(1);
  const auto stream = device->make_stream();
  std::atomic<int> calls{0};
  {
    CountArgs args{&calls, -1};
    stream->launch(count_kernel, args);
    args.calls = nullptr;
  }
  stream->synchronize();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace shardstream::device::host
