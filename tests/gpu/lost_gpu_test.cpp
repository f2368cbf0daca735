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

namespace shardstream {
namespace {

using device::Buffer;
using device::Memory;

constexpr Kernel<test::TrapArgs> trap_kernel{"trap", nullptr, test::trap};

std::string complaint(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::failed);
    return error.what();
  }
  return "";
}

/// All in one test: nothing else can use the GPU in this process afterwards.
TEST(LostGpu, IsNamedWhereItIsWaitedForAndEndsQuietly) {
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
  const std::string error = complaint([&] { stream->synchronize(); });
  EXPECT_EQ(
      error.rfind("cudaStreamSynchronize on " + name + " failed (cudaErrorLaunchFailure: ", 0), 0U)
      << error;
  EXPECT_NE(error.find("has failed in the middle of the run"), std::string::npos) << error;
  EXPECT_NE(error.find("Xid"), std::string::npos) << error;

  // From then on all fails, in any thread, and nothing hangs.
  std::string elsewhere;
  std::thread([&] { elsewhere = complaint([&] { event->synchronize(); }); }).join();
  EXPECT_NE(elsewhere.find(name), std::string::npos) << elsewhere;
  EXPECT_NE(complaint([&] { other->upload(memory->data(), more[0].data(), 4); }), "");
  EXPECT_NE(complaint([&] { other->synchronize(); }), "");
  EXPECT_NE(complaint([&] { Buffer<int>(*device, Memory::device, 1); }), "");

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
