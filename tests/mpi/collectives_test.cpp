// The contract of every transport, on any number of ranks. The values are integers, so that sums
// are exact in any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "device/buffer.hpp"
#include "support/forwarding_device.hpp"
#include "support/session.hpp"
#include "support/transports.hpp"

namespace shardstream {
namespace {

using comm::SumType;
using device::Buffer;
using device::Memory;
using test::session;

constexpr std::size_t piece = 4096;  // bytes
/// Nothing, one, an odd number, one piece minus and plus one, whole pieces, and 3.5 pieces.
constexpr std::size_t sizes[] = {0, 1, 13, piece - 1, piece, piece + 1, 2 * piece, 7 * piece / 2};

std::size_t ranks() {
  return static_cast<std::size_t>(session().size());
}
std::size_t own_rank() {
  return static_cast<std::size_t>(session().rank());
}

template <class T>
constexpr SumType sum_type = std::is_same_v<T, float>    ? SumType::f32
                             : std::is_same_v<T, double> ? SumType::f64
                                                         : SumType::i64;

/// Value i of a rank: an integer that differs between ranks and may be negative; types of 8 bytes
/// get values beyond 32 bits.
template <class T>
T value(std::size_t rank, std::size_t i) {
  const auto whole = static_cast<std::int64_t>((rank + 1) * (i % 1009)) - 700;
  return static_cast<T>(sizeof(T) == 8 ? whole * (std::int64_t{1} << 33) + 1 : whole);
}

/// Bytes: all values of a rank differ from those of the next rank.
template <>
std::byte value<std::byte>(std::size_t rank, std::size_t i) {
  return static_cast<std::byte>(i % 79 + 79 * rank);
}

template <class T>
std::vector<T> values(std::size_t rank, std::size_t count) {
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = value<T>(rank, i);
  return all;
}

/// The sums over all ranks of the values first to first + count.
template <class T>
std::vector<T> sums(std::size_t first, std::size_t count) {
  std::vector<T> all(count);
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    for (std::size_t i = 0; i < count; ++i) all[i] += value<T>(rank, first + i);
  }
  return all;
}

/// Every rank's values, in rank order.
template <class T>
std::vector<T> gathered(std::size_t count) {
  std::vector<T> all;
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    const auto part = values<T>(rank, count);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

/// This rank's device, which can be full.
class LimitedDevice final : public test::ForwardingDevice {
 public:
  LimitedDevice() : ForwardingDevice(test::make_own_device()) {}
  bool full = false;

  void* allocate(Memory kind, std::size_t bytes) override {
    if (full) throw Error("the device is full");
    return ForwardingDevice::allocate(kind, bytes);
  }
};

class Collectives : public testing::TestWithParam<std::string> {
 protected:
  /// Values on the device, followed by one value that must not change.
  template <class T>
  struct Guarded {
    Buffer<T> buffer;
    T* data() const { return buffer.data(); }
  };
  template <class T>
  Guarded<T> on_device(std::vector<T> content) {
    content.push_back(T{77});
    Guarded<T> result{{*device, Memory::device, content.size()}};
    stream->upload(result.data(), content.data(), result.buffer.bytes());
    stream->synchronize();
    return result;
  }
  template <class T>
  Guarded<T> room(std::size_t count) {
    return on_device(std::vector<T>(count, T{99}));
  }
  template <class T>
  std::vector<T> seen(const Guarded<T>& guarded) {
    std::vector<T> content(guarded.buffer.size());
    stream->download(content.data(), guarded.data(), guarded.buffer.bytes());
    communicator->wait(*stream);
    EXPECT_EQ(content.back(), T{77});
    content.pop_back();
    return content;
  }

  template <class T>
  void expect_sums(std::size_t count) {
    const auto whole = values<T>(own_rank(), ranks() * count);
    const auto own_part = own_rank() * count;
    auto send = on_device(whole);
    auto receive = room<T>(count);
    communicator->reduce_scatter(*stream, send.data(), receive.data(), count, sum_type<T>);
    EXPECT_EQ(seen(receive), sums<T>(own_part, count)) << count;
    EXPECT_EQ(seen(send), whole) << count;
    communicator->reduce_scatter(*stream, send.data(), send.data() + own_part, count, sum_type<T>);
    auto in_place = whole;
    std::ranges::copy(sums<T>(own_part, count),
                      in_place.begin() + static_cast<std::ptrdiff_t>(own_part));
    EXPECT_EQ(seen(send), in_place) << count;

    send = on_device(values<T>(own_rank(), count));
    receive = room<T>(count);
    communicator->all_reduce(*stream, send.data(), receive.data(), count, sum_type<T>);
    EXPECT_EQ(seen(receive), sums<T>(0, count)) << count;
    EXPECT_EQ(seen(send), values<T>(own_rank(), count)) << count;
    communicator->all_reduce(*stream, send.data(), send.data(), count, sum_type<T>);
    EXPECT_EQ(seen(send), sums<T>(0, count)) << count;
  }

  /// All ranks but the last one, which comes late, must count as waiting for others. Each rank
  /// itself waits only for an event after the collective.
  void expect_waiting_for_the_last(comm::Communicator& among) {
    constexpr std::size_t bytes = 7 * piece / 2;
    const auto send = on_device(values<std::byte>(own_rank(), bytes));
    const auto receive = room<std::byte>(static_cast<std::size_t>(among.size()) * bytes);
    const auto done = device->make_event();
    const bool is_late = among.rank() == among.size() - 1;
    std::atomic<bool> has_waited = false;
    session().barrier();
    const auto moves_before = session().heartbeat().pulse().moves;
    std::jthread observer([&](const std::stop_token& stop) {
      while (!has_waited && !stop.stop_requested()) {
        has_waited = session().heartbeat().pulse().waiting;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    if (is_late) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      EXPECT_FALSE(has_waited);
    }
    among.all_gather(*stream, send.data(), receive.data(), bytes);
    stream->record(*done);
    done->synchronize();
    observer.request_stop();
    observer.join();
    EXPECT_TRUE(has_waited || is_late);
    among.wait(*stream);
    EXPECT_FALSE(session().heartbeat().pulse().waiting);
    if (GetParam() == "mpi") {  // each of the four pieces is progress
      EXPECT_GE(session().heartbeat().pulse().moves - moves_before, 8U);
    }
  }

  std::unique_ptr<device::Device> device = test::make_own_device();
  std::unique_ptr<device::Stream> stream = device->make_stream();
  std::unique_ptr<comm::Communicator> communicator = test::connect(GetParam(), *device, piece);
};

TEST_P(Collectives, NameTheirTransport) {
  EXPECT_EQ(communicator->transport(), GetParam());
  EXPECT_EQ(communicator->network(), "within one host");  // the tests run on one host
}

TEST_P(Collectives, GatherBytesInRankOrder) {
  for (const std::size_t bytes : sizes) {
    const auto send = on_device(values<std::byte>(own_rank(), bytes));
    const auto receive = room<std::byte>(ranks() * bytes);
    communicator->all_gather(*stream, send.data(), receive.data(), bytes);
    EXPECT_EQ(seen(receive), gathered<std::byte>(bytes)) << bytes;
    EXPECT_EQ(seen(send), values<std::byte>(own_rank(), bytes)) << bytes;

    // Each rank sends from its own place in the result.
    std::vector<std::byte> places(ranks() * bytes, std::byte{99});
    std::ranges::copy(values<std::byte>(own_rank(), bytes),
                      places.begin() + static_cast<std::ptrdiff_t>(own_rank() * bytes));
    const auto all = on_device(places);
    communicator->all_gather(*stream, all.data() + own_rank() * bytes, all.data(), bytes);
    EXPECT_EQ(seen(all), gathered<std::byte>(bytes)) << bytes;
  }
}

TEST_P(Collectives, ExchangeBytes) {
  communicator->connect();
  for (const std::size_t bytes : sizes) {
    const auto whole = values<std::byte>(own_rank(), ranks() * bytes);
    const auto send = on_device(whole);
    const auto receive = room<std::byte>(ranks() * bytes);
    communicator->all_to_all(*stream, send.data(), receive.data(), bytes);
    std::vector<std::byte> expected;
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      for (std::size_t i = 0; i < bytes; ++i) {
        expected.push_back(value<std::byte>(rank, own_rank() * bytes + i));
      }
    }
    EXPECT_EQ(seen(receive), expected) << bytes;
    EXPECT_EQ(seen(send), whole) << bytes;
  }
}

TEST_P(Collectives, BroadcastFromAnyRank) {
  for (std::size_t root = 0; root < ranks(); ++root) {
    for (const std::size_t bytes : sizes) {
      const auto data = on_device(values<std::byte>(own_rank(), bytes));
      communicator->broadcast(*stream, data.data(), bytes, static_cast<int>(root));
      EXPECT_EQ(seen(data), values<std::byte>(root, bytes)) << bytes << " from " << root;
    }
  }
}

TEST_P(Collectives, AddFloats) {
  for (const std::size_t bytes : sizes) expect_sums<float>(bytes / 4);
}
TEST_P(Collectives, AddDoubles) {
  for (const std::size_t bytes : sizes) expect_sums<double>(bytes / 8);
}
TEST_P(Collectives, AddIntegers) {
  for (const std::size_t bytes : sizes) expect_sums<std::int64_t>(bytes / 8);
}

/// Each collective uses the result of the previous one, without waits in between.
TEST_P(Collectives, RunInTheOrderOfTheStream) {
  constexpr std::size_t count = 7 * piece / 2 / sizeof(double);
  const auto own = on_device(values<double>(own_rank(), count));
  const auto all = room<double>(ranks() * count), exchanged = room<double>(ranks() * count);
  std::vector<double> expected = sums<double>(0, count), expected_of_all;
  for (double& each : expected) each *= static_cast<double>(ranks());
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    expected_of_all.insert(expected_of_all.end(), expected.begin(), expected.end());
  }
  for (int round = 0; round < 5; ++round) {
    const auto again = values<double>(own_rank(), count);
    stream->upload(own.data(), again.data(), count * sizeof(double));
    communicator->all_gather(*stream, own.data(), all.data(), count * sizeof(double));
    communicator->reduce_scatter(*stream, all.data(), own.data(), count, SumType::f64);
    communicator->all_reduce(*stream, own.data(), own.data(), count, SumType::f64);
    communicator->broadcast(*stream, own.data(), count * sizeof(double), round % session().size());
    communicator->all_gather(*stream, own.data(), all.data(), count * sizeof(double));
    communicator->all_to_all(*stream, all.data(), exchanged.data(), count * sizeof(double));
    EXPECT_EQ(seen(own), expected) << round;
    EXPECT_EQ(seen(exchanged), expected_of_all) << round;
  }
}

/// The second collective begins while the first one's result may still be uploaded.
TEST_P(Collectives, RunOnTwoStreamsInTurn) {
  constexpr std::size_t large = std::size_t{1} << 23;
  communicator.reset();
  communicator = test::connect(GetParam(), *device, large);
  const auto other = device->make_stream();
  const auto handed_over = device->make_event();
  const auto first = on_device(values<std::byte>(own_rank(), large));
  const auto second = on_device(values<std::byte>(own_rank() + 1, large));
  const auto expected = gathered<std::byte>(large);
  for (int round = 0; round < 6; ++round) {
    const auto all_first = room<std::byte>(ranks() * large);
    const auto all_second = room<std::byte>(ranks() * large);
    communicator->all_gather(*stream, first.data(), all_first.data(), large);
    communicator->all_gather(*other, second.data(), all_second.data(), large);
    other->record(*handed_over);
    stream->wait(*handed_over);
    ASSERT_TRUE(seen(all_first) == expected);  // not ASSERT_EQ, which would print all values
    const auto got = seen(all_second);
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      ASSERT_EQ(got[rank * large], value<std::byte>(rank + 1, 0));
      ASSERT_EQ(got[(rank + 1) * large - 1], value<std::byte>(rank + 1, large - 1));
    }
  }
}

TEST_P(Collectives, CountAsWaitingForALateRank) {
  expect_waiting_for_the_last(*communicator);
}

TEST_P(Collectives, CountAsWaitingForALateRankOfAPart) {
  const auto part = communicator->split(session().rank() % 2, 0);
  expect_waiting_for_the_last(*part);
}

/// Parts of the even and of the odd ranks, in descending order. The whole may be destroyed first.
TEST_P(Collectives, OfAPartInvolveOnlyItsRanks) {
  const auto own = own_rank(), parity = own % 2;
  std::vector<std::size_t> members;
  for (std::size_t rank = parity; rank < ranks(); rank += 2) members.insert(members.begin(), rank);
  const auto place = static_cast<std::size_t>(std::ranges::find(members, own) - members.begin());
  const auto size = members.size();

  const auto part = communicator->split(static_cast<int>(parity), -session().rank());
  EXPECT_EQ(communicator->rank(), session().rank());
  EXPECT_EQ(communicator->size(), session().size());
  const std::string network = communicator->network();
  communicator.reset();
  EXPECT_EQ(part->transport(), GetParam());
  EXPECT_EQ(part->network(), network);
  EXPECT_EQ(part->rank(), static_cast<int>(place));
  EXPECT_EQ(part->size(), static_cast<int>(size));
  communicator = test::connect(GetParam(), *device, piece);  // for seen()

  std::vector<std::size_t> of_all(std::begin(sizes), std::end(sizes));
  of_all.push_back((std::size_t{1} << 20) + 8);  // large enough for NCCL's barrier
  for (const std::size_t bytes : of_all) {
    const std::size_t count = bytes / sizeof(double);
    const auto whole = values<double>(own, size * count);
    std::vector<double> gathered, exchanged, scattered(count), reduced(count);
    for (const std::size_t rank : members) {
      const auto theirs = values<double>(rank, size * count);
      for (std::size_t i = 0; i < count; ++i) {
        const double to_here = theirs[place * count + i];
        gathered.push_back(theirs[i]);
        exchanged.push_back(to_here);
        scattered[i] += to_here;
        reduced[i] += theirs[i];
      }
    }
    const auto send = on_device(whole);
    const auto all = room<double>(size * count), one = room<double>(count);
    part->all_gather(*stream, send.data(), all.data(), count * sizeof(double));
    EXPECT_EQ(seen(all), gathered) << bytes;
    part->all_to_all(*stream, send.data(), all.data(), count * sizeof(double));
    EXPECT_EQ(seen(all), exchanged) << bytes;
    part->reduce_scatter(*stream, send.data(), one.data(), count, SumType::f64);
    EXPECT_EQ(seen(one), scattered) << bytes;
    part->all_reduce(*stream, send.data(), one.data(), count, SumType::f64);
    EXPECT_EQ(seen(one), reduced) << bytes;
    part->broadcast(*stream, send.data(), size * count * sizeof(double), part->size() - 1);
    EXPECT_EQ(seen(send), values<double>(members.back(), size * count)) << bytes;
  }
}

/// If one rank cannot start, all ranks get the error, and the whole can still be used.
TEST_P(Collectives, APartThatCannotStartOnOneRankStartsOnNone) {
  LimitedDevice limited;
  const auto whole = test::connect(GetParam(), limited, piece);
  limited.full = own_rank() == ranks() - 1;
  EXPECT_THROW(whole->split(session().rank() % 2, 0), ranks::AgreedError);
  limited.full = false;
  const auto send = on_device(values<double>(own_rank(), 13)), sum = room<double>(13);
  const auto part = whole->split(0, 0);
  part->all_reduce(*stream, send.data(), sum.data(), 13, SumType::f64);
  EXPECT_EQ(seen(sum), sums<double>(0, 13));
}

/// Gathers like those of a product's panels: along the rows and the columns of a grid, and over all
/// ranks, on one stream and without waits in between.
TEST_P(Collectives, OfPartsAndTheWholeTakeTurns) {
  constexpr std::size_t bytes = 7 * piece / 2;
  const std::size_t across = ranks() % 2 == 0 ? ranks() / 2 : ranks(), down = ranks() / across;
  const std::size_t row = own_rank() / across, column = own_rank() % across;
  const auto along_row = communicator->split(static_cast<int>(row), session().rank());
  const auto along_column = communicator->split(static_cast<int>(column), session().rank());
  const auto send = on_device(values<std::byte>(own_rank(), bytes));
  std::vector<std::byte> expected_row, expected_column;
  for (std::size_t i = 0; i < across; ++i) {
    const auto theirs = values<std::byte>(row * across + i, bytes);
    expected_row.insert(expected_row.end(), theirs.begin(), theirs.end());
  }
  for (std::size_t i = 0; i < down; ++i) {
    const auto theirs = values<std::byte>(i * across + column, bytes);
    expected_column.insert(expected_column.end(), theirs.begin(), theirs.end());
  }
  for (int round = 0; round < 5; ++round) {
    const auto of_row = room<std::byte>(across * bytes), of_column = room<std::byte>(down * bytes);
    const auto of_all = room<std::byte>(ranks() * bytes);
    along_row->all_gather(*stream, send.data(), of_row.data(), bytes);
    along_column->all_gather(*stream, send.data(), of_column.data(), bytes);
    communicator->all_gather(*stream, send.data(), of_all.data(), bytes);
    EXPECT_EQ(seen(of_row), expected_row) << round;
    EXPECT_EQ(seen(of_column), expected_column) << round;
    EXPECT_EQ(seen(of_all), gathered<std::byte>(bytes)) << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Over, Collectives, testing::ValuesIn(test::transports()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace shardstream
