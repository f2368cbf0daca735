// The kernels that measure ceilings do the work that is counted.
#include <gtest/gtest.h>

#include <cstring>

#include "device/buffer.hpp"
#include "kernels/math/multiply_add.hpp"
#include "kernels/memory/memory.hpp"
#include "support/backend.hpp"

namespace shardstream {
namespace {

using device::Buffer;
using device::Memory;

constexpr std::size_t sizes[] = {16, 4096, 1000 * 16, (std::size_t{3} << 20) + 16};

TEST(CeilingKernels, CopyCopiesEveryByteAndNoMore) {
  const auto device = test::make_backend();
  const auto stream = device->make_stream();
  for (const std::size_t bytes : sizes) {
    const Buffer<std::byte> host(*device, Memory::pinned, bytes + 16);
    const Buffer<std::byte> from(*device, Memory::device, bytes + 16);
    const Buffer<std::byte> to(*device, Memory::device, bytes + 16);
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<std::byte>(i * 7 + 1);
    stream->upload(from.data(), host.data(), host.bytes());
    stream->synchronize();
    std::memset(host.data(), 0xee, host.bytes());
    stream->upload(to.data(), host.data(), host.bytes());
    stream->launch(memory::copy_kernel(), {from.data(), to.data(), bytes});
    stream->download(host.data(), to.data(), host.bytes());
    stream->synchronize();
    for (std::size_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(host[i], static_cast<std::byte>(i * 7 + 1)) << bytes << " bytes, byte " << i;
    }
    for (std::size_t i = bytes; i < host.size(); ++i) ASSERT_EQ(host[i], std::byte{0xee});
  }
}

TEST(CeilingKernels, SumAddsEveryWordAndTheRest) {
  const auto device = test::make_backend();
  const auto stream = device->make_stream();
  for (const std::size_t whole : sizes) {
    for (const std::size_t rest : {0, 1, 4, 8, 15}) {
      const std::size_t bytes = whole + rest;
      const Buffer<std::byte> host(*device, Memory::pinned, whole + 16);
      const Buffer<std::byte> data(*device, Memory::device, whole + 16);
      const Buffer<std::uint64_t> sum(*device, Memory::device, 1),
          found(*device, Memory::pinned, 1);
      std::uint64_t expected = 7;
      for (std::size_t i = 0; i < host.size(); ++i) {
        host[i] = static_cast<std::byte>(i * 7 + 200);
        if (i < bytes) expected += std::to_integer<std::uint64_t>(host[i]) << (8 * (i % 8));
      }
      found[0] = 7;
      stream->upload(data.data(), host.data(), host.bytes());
      stream->upload(sum.data(), found.data(), found.bytes());
      stream->launch(memory::sum_kernel(), {data.data(), bytes, sum.data()});
      stream->download(found.data(), sum.data(), sum.bytes());
      stream->synchronize();
      EXPECT_EQ(found[0], expected) << bytes;
    }
  }
}

/// Each word in turn makes the sum the value that read() reports, which shows that every word is
/// read.
TEST(CeilingKernels, ReadSeesEveryWord) {
  const auto device = test::make_backend();
  const auto stream = device->make_stream();
  for (const std::size_t bytes : sizes) {
    const std::size_t words = bytes / 8;
    const Buffer<std::uint64_t> host(*device, Memory::pinned, words);
    const Buffer<std::uint64_t> data(*device, Memory::device, words);
    const Buffer<std::uint64_t> sink(*device, Memory::device, 1), seen(*device, Memory::pinned, 1);
    for (const std::size_t at : {std::size_t{0}, words / 3, words - 1}) {
      std::memset(host.data(), 0, host.bytes());
      host[at] = 0x5eed5eedU;
      seen[0] = 0;
      stream->upload(data.data(), host.data(), host.bytes());
      stream->upload(sink.data(), seen.data(), seen.bytes());
      stream->launch(memory::read_kernel(),
                     {reinterpret_cast<const std::byte*>(data.data()), bytes, sink.data()});
      stream->download(seen.data(), sink.data(), sink.bytes());
      stream->synchronize();
      // The thread of a GPU, or the part on a host, that reads the word reports it.
      EXPECT_EQ(seen[0], 0x5eed5eedU) << bytes << " bytes, word " << at;
    }
  }
}

TEST(CeilingKernels, MultiplyAddTakesAllItsSteps) {
  const auto device = test::make_backend();
  const auto stream = device->make_stream();
  const Buffer<double> sink(*device, Memory::device, 1), seen(*device, Memory::pinned, 1);
  // x = x * 0 + b: after the last step every x is b. A sum is over a power of two of them: the 8
  // elements of a GPU's thread, or the share of a host's part (three parts share three times 2048).
  double found = 0;
  for (double together = 8; together <= 4096 && found == 0; together *= 2) {
    seen[0] = 0;
    stream->upload(sink.data(), seen.data(), seen.bytes());
    stream->launch(math::multiply_add_kernel<double>(),
                   {3 * math::elements_together, 5, 0.0, -1.0 / together, sink.data()});
    stream->download(seen.data(), sink.data(), sink.bytes());
    stream->synchronize();
    found = seen[0];
  }
  EXPECT_EQ(found, -1.0);
}

}  // namespace
}  // namespace shardstream
