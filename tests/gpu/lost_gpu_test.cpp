// A GPU that fails in the middle of the work.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "device/buffer.hpp"
#include "device/cuda/cuda_device.hpp"
#include "gpu/trap.hpp"
#include "support/errors.hpp"

namespace shardstream {
namespace {

using device::Buffer;
using device::Memory;

constexpr Kernel<test::TrapArgs> trap_kernel{"trap", nullptr, test::trap};

std::string failure(const std::function<void()>& call) {
  return test::error_of(call, ExitCode::failed);
}

/// All in one test: nothing else can use the GPU in this process afterwards.
TEST(LostGpu, IsReportedOnceByTheNextWait) {
  auto device = device::cuda::make_device(0, 2);
  auto stream = device->make_stream(), other = device->make_stream();
  auto event = device->make_event();
  std::optional<Buffer<int>> memory(std::in_place, *device, Memory::device, 1000);
  std::vector<Buffer<int>> more;
  for (const auto kind : {Memory::pinned, Memory::write_combined, Memory::mapped}) {
    more.emplace_back(*device, kind, 1000);
  }
  const std::string name = "GPU 0 (" + device->info().name + ", " + device->info().pci + ")";

  stream->launch(trap_kernel, {});
  stream->record(*event);
  EXPECT_TRUE(test::names(failure([&] { stream->synchronize(); }), "cudaStreamSynchronize", name,
                          "cudaErrorLaunchFailure", "Xid"));

  // From then on all fails, in any thread, and nothing hangs.
  std::string elsewhere;
  std::thread([&] { elsewhere = failure([&] { event->synchronize(); }); }).join();
  EXPECT_TRUE(test::names(elsewhere, name));
  failure([&] { other->upload(memory->data(), more[0].data(), 4); });
  failure([&] { other->synchronize(); });
  failure([&] { Buffer<int>(*device, Memory::device, 1); });

  testing::internal::CaptureStderr();
  event.reset();
  stream.reset();
  other.reset();
  memory.reset();
  more.clear();
  device.reset();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");  // the error has told it
}

}  // namespace
}  // namespace shardstream
