// The contract of every backend: streams, events, memory, buffers and forked streams.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "device/forked_streams.hpp"
#include "support/backend.hpp"

namespace shardstream {
namespace {

using device::Buffer;
using device::ForkedStreams;
using device::Memory;
using device::Priority;
using test::from_device;
using test::make_backend;
using test::on_device;

std::vector<std::uint32_t> counting(std::size_t count, std::uint32_t first = 0) {
  std::vector<std::uint32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST(Device, DescribesItself) {
  const auto device = make_backend();
  EXPECT_TRUE(device->info().backend == "host" || device->info().backend == "cuda");
  EXPECT_FALSE(device->info().name.empty());
  EXPECT_GT(device->info().memory_total, 0U);
  EXPECT_GE(device->info().memory_total, device->info().memory_free);
  EXPECT_EQ(device->info().backend == "cuda", !device->info().uuid.empty());
}

TEST(Device, MemoryIsAlignedAndRejectedIfTooLarge) {
  const auto device = make_backend();
  for (const auto kind : {Memory::device, Memory::pinned}) {
    const Buffer<std::byte> small(*device, kind, 1);
    const std::size_t alignment = kind == Memory::pinned ? 4096 : 256;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.data()) % alignment, 0U);
    EXPECT_THROW(Buffer<std::byte>(*device, kind, std::size_t{1} << 60), Error);
  }
  const Buffer<std::byte> none(*device, Memory::device, 0);
  EXPECT_EQ(none.data(), nullptr);
}

TEST(Device, BuffersMove) {
  const auto device = make_backend();
  Buffer<int> a(*device, Memory::pinned, 4);
  a[3] = 7;
  Buffer<int> b(std::move(a));
  EXPECT_EQ(b[3], 7);
  a = std::move(b);
  EXPECT_EQ(a[3], 7);
  EXPECT_EQ(a.bytes(), 16U);
}

TEST(Stream, CopiesAreExactAtEverySize) {
  const auto device = make_backend();
  const auto stream = device->make_stream();
  for (const std::size_t count : {1, 3, 1000, 65536, 1 << 20, (1 << 20) + 1}) {
    const auto values = counting(count, 5);
    EXPECT_EQ(from_device(*stream, on_device(*device, *stream, values)), values) << count;
  }
}

TEST(Stream, RowsAreUploadedWithAPitchAndGapsAreUnchanged) {
  const auto device = make_backend();
  const auto stream = device->make_stream();
  struct Rows {
    std::size_t rows, width, pitch;  // in values
  };
  for (const Rows& of : {Rows{1, 5, 5}, {3, 1, 2}, {7, 1000, 1024}, {300, 4096, 8192}}) {
    const auto values = counting(of.rows * of.width);
    std::vector<std::uint32_t> wanted(of.rows * of.pitch, 7);
    const auto buffer = on_device(*device, *stream, wanted);
    stream->upload_rows(buffer.data(), of.pitch * sizeof(std::uint32_t), values.data(),
                        of.width * sizeof(std::uint32_t), of.rows);
    for (std::size_t i = 0; i < of.rows; ++i) {
      std::copy_n(values.data() + i * of.width, of.width, wanted.data() + i * of.pitch);
    }
    EXPECT_EQ(from_device(*stream, buffer), wanted) << of.rows << " x " << of.width;
  }
}

TEST(Stream, WorkRunsInOrder) {
  const auto device = make_backend();
  const auto stream = device->make_stream();
  const auto first = counting(1 << 20), second = counting(1 << 20, 1);
  const Buffer<std::uint32_t> buffer(*device, Memory::device, first.size());
  std::vector<std::uint32_t> seen(first.size());
  for (int i = 0; i < 20; ++i) {
    stream->upload(buffer.data(), first.data(), buffer.bytes());
    stream->upload(buffer.data(), second.data(), buffer.bytes());
  }
  stream->download(seen.data(), buffer.data(), buffer.bytes());
  stream->synchronize();
  EXPECT_EQ(seen, second);
}

TEST(ForkedStreams, WorkBetweenTwoPointsOfAStream) {
  const auto device = make_backend();
  for (const Priority priority : {Priority::normal, Priority::urgent}) {
    const auto stream = device->make_stream(priority);
    constexpr std::size_t count = 3, part = std::size_t{1} << 20;
    ForkedStreams streams(*device, count);
    ASSERT_EQ(streams.count(), count);
    // Pinned memory, so that copies do not wait for one another without the events.
    const auto pinned = [&] {
      return Buffer<std::uint32_t>(*device, Memory::pinned, count * part);
    };
    const auto before = pinned(), within = pinned(), seen = pinned();
    std::iota(before.data(), before.data() + before.size(), 0U);
    std::iota(within.data(), within.data() + within.size(), 1U);
    const Buffer<std::uint32_t> there(*device, Memory::device, count * part);
    for (int round = 0; round < 10; ++round) {
      stream->upload(there.data(), before.data(), there.bytes());
      streams.fork(*stream);
      for (std::size_t i = count; i-- > 0;) {
        streams[i].upload(there.data() + i * part, within.data() + i * part,
                          part * sizeof(*seen.data()));
      }
      streams.join();
      stream->download(seen.data(), there.data(), there.bytes());
      stream->synchronize();
      ASSERT_EQ(std::memcmp(seen.data(), within.data(), seen.bytes()), 0);
    }
  }
}

TEST(ForkedStreams, TheFirstIsTheCallersStream) {
  const auto device = make_backend();
  const auto stream = device->make_stream();
  ForkedStreams streams(*device, 1);
  streams.fork(*stream);
  EXPECT_EQ(&streams[0], stream.get());
  streams.join();
}

TEST(Event, WaitingForAnUnrecordedEventDoesNothing) {
  const auto device = make_backend();
  const auto stream = device->make_stream();
  const auto event = device->make_event();
  event->synchronize();
  stream->wait(*event);
  stream->synchronize();
}

/// One stream fills a buffer, and another one reads it after an event, repeatedly with the same
/// event.
TEST(Event, OrdersStreamsEveryTimeItIsRecorded) {
  const auto device = make_backend();
  const auto writer = device->make_stream(), reader = device->make_stream();
  const auto filled = device->make_event(), emptied = device->make_event();
  constexpr std::size_t count = 1 << 18;
  const Buffer<std::uint32_t> shared(*device, Memory::device, count);
  constexpr std::uint32_t rounds = 20;
  const Buffer<std::uint32_t> in(*device, Memory::pinned, count * rounds);
  const Buffer<std::uint32_t> out(*device, Memory::pinned, count * rounds);
  std::iota(in.data(), in.data() + in.size(), 0U);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    writer->wait(*emptied);
    writer->upload(shared.data(), in.data() + round * count, shared.bytes());
    writer->record(*filled);
    reader->wait(*filled);
    reader->download(out.data() + round * count, shared.data(), shared.bytes());
    reader->record(*emptied);
  }
  reader->synchronize();
  EXPECT_EQ(std::memcmp(in.data(), out.data(), in.bytes()), 0);
}

TEST(Event, AnyThreadMayWaitForIt) {
  const auto device = make_backend();
  const auto stream = device->make_stream();
  const auto event = device->make_event();
  const auto values = counting(1 << 20);
  const Buffer<std::uint32_t> buffer(*device, Memory::device, values.size());
  std::vector<std::uint32_t> seen(values.size());
  stream->upload(buffer.data(), values.data(), buffer.bytes());
  stream->download(seen.data(), buffer.data(), buffer.bytes());
  stream->record(*event);
  std::thread([&] { event->synchronize(); }).join();
  EXPECT_EQ(seen, values);
  stream->synchronize();
}

TEST(Event, TimeBetweenTwoPointsIsThatOfTheWork) {
  const auto device = make_backend();
  const auto stream = device->make_stream();
  const auto start = device->make_timed_event(), end = device->make_timed_event();
  const auto values = counting(1 << 22);
  const Buffer<std::uint32_t> buffer(*device, Memory::device, values.size());
  stream->record(*start);
  for (int i = 0; i < 4; ++i) stream->upload(buffer.data(), values.data(), buffer.bytes());
  stream->record(*end);
  end->synchronize();
  EXPECT_GT(end->seconds_since(*start), 16e6 / 1e12);  // no machine copies at 1 TB/s from the host
  EXPECT_LT(end->seconds_since(*start), 60);
}

}  // namespace
}  // namespace shardstream
