// The drain on every backend: what was pushed is written once, unchanged, whatever is done with the
// device memory and the slots afterwards; and an error of a writer comes out.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "contract/backend.hpp"
#include "core/error.hpp"
#include "kernels/memory/memory.hpp"
#include "pipeline/drain.hpp"

namespace shardstream::pipeline {
namespace {

using device::Buffer;
using device::Memory;

constexpr std::size_t slot_bytes = 65536;
constexpr std::uint64_t tiles = 2;

std::vector<std::byte> value(std::uint64_t number) {
  std::vector<std::byte> bytes(slot_bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(57 * number + 3 * i + i / 253 + 1);
  }
  return bytes;
}

/// Makes tiles in device memory, one after the other in the same few places, and drains them.
class Producer {
 public:
  Producer(device::Device& device, std::uint64_t count)
      : from_(device, Memory::device, count * slot_bytes),
        tiles_(device, Memory::device, tiles * slot_bytes),
        compute_(device.make_stream()) {
    for (std::uint64_t i = 0; i < tiles; ++i) {
      made_.push_back(device.make_event());
      copied_.push_back(device.make_event());
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto bytes = value(i);
      compute_->upload(from_.data() + i * slot_bytes, bytes.data(), bytes.size());
      compute_->synchronize();
    }
  }
  ~Producer() { compute_->synchronize(); }

  void push(Drain& drain, std::uint64_t number, std::size_t bytes, Drain::Write write) {
    std::byte* const tile = tiles_.data() + number % tiles * slot_bytes;
    compute_->wait(*copied_[number % tiles]);
    compute_->launch(memory::copy_kernel(), {from_.data() + number * slot_bytes, tile, slot_bytes});
    compute_->record(*made_[number % tiles]);
    drain.push(*made_[number % tiles], tile, bytes, *copied_[number % tiles], std::move(write));
  }

 private:
  Buffer<std::byte> from_, tiles_;
  std::unique_ptr<device::Stream> compute_;
  std::vector<std::unique_ptr<device::Event>> made_, copied_;
};

struct Rings {
  std::uint64_t slots;
  unsigned writers;
};
constexpr Rings all_rings[] = {{1, 1}, {2, 2}, {3, 1}, {5, 3}};

TEST(Drain, WritesEveryPushOnceAndRepeats) {
  constexpr std::uint64_t count = 11;
  const std::size_t sizes[] = {slot_bytes, 1, 13, 4096, slot_bytes - 1};
  const auto device = test::make_backend();
  for (const Rings& rings : all_rings) {
    measure::Recorder recorder;
    launch::Heartbeat heartbeat;
    Producer producer(*device, count);
    Drain drain(*device, recorder, slot_bytes, rings.slots, rings.writers, &heartbeat);
    drain.finish();  // of nothing
    std::uint64_t bytes = 0;
    for (int round = 0; round < 3; ++round) {
      std::vector<std::vector<std::byte>> seen(count);
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::size_t size = sizes[i % std::size(sizes)];
        bytes += size;
        producer.push(drain, i, size, [&seen, i, size](const std::byte* data) {
          seen[i].insert(seen[i].end(), data, data + size);
        });
      }
      drain.finish();
      for (std::uint64_t i = 0; i < count; ++i) {
        auto wanted = value(i);
        wanted.resize(sizes[i % std::size(sizes)]);
        EXPECT_EQ(seen[i], wanted) << "push " << i << ", slots " << rings.slots;
      }
    }
    EXPECT_GE(heartbeat.pulse().moves, 2 * 3 * count);
    recorder.settle();
    const auto& downloads = recorder.device_tracks().front().phases().front();
    EXPECT_EQ(recorder.device_tracks().front().name(), "download");
    EXPECT_EQ(downloads.calls, 3 * count);
    EXPECT_EQ(downloads.bytes, bytes);
    std::uint64_t written = 0;
    for (const auto& track : recorder.host_tracks()) {
      for (const auto& phase : track.phases()) {
        if (phase.name == "write") written += phase.bytes;
      }
    }
    EXPECT_EQ(written, bytes);
  }
}

/// Writers that take their time: neither the tile nor the slot may be used again under them.
TEST(Drain, ASlotIsItsWritersUntilItIsWritten) {
  constexpr std::uint64_t count = 9;
  const auto device = test::make_backend();
  for (const Rings& rings : all_rings) {
    measure::Recorder recorder;
    Producer producer(*device, count);
    Drain drain(*device, recorder, slot_bytes, rings.slots, rings.writers);
    std::atomic<unsigned> wrong = 0, begun = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      producer.push(drain, i, slot_bytes, [&, i](const std::byte* data) {
        const auto wanted = value(i);
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        ++begun;
        do {  // the first ones wait for one another: all writers write at once
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          wrong += std::memcmp(data, wanted.data(), wanted.size()) != 0;
        } while (begun < rings.writers && std::chrono::steady_clock::now() < until);
        wrong += begun < rings.writers;
      });
    }
    drain.finish();
    EXPECT_EQ(wrong, 0U) << "slots " << rings.slots;
  }
}

struct WriteFailed : std::runtime_error {
  WriteFailed() : std::runtime_error("the disk is full") {}
};

TEST(Drain, AnErrorOfAWriterComesOutOnce) {
  constexpr std::uint64_t count = 12;
  const auto device = test::make_backend();
  for (const Rings& rings : all_rings) {
    for (const std::uint64_t at : {0, 5, 11}) {
      measure::Recorder recorder;
      Producer producer(*device, count);
      Drain drain(*device, recorder, slot_bytes, rings.slots, rings.writers);
      int thrown = 0;
      try {
        for (std::uint64_t i = 0; i < count; ++i) {
          producer.push(drain, i, slot_bytes, [at, i](const std::byte*) {
            if (i >= at) throw WriteFailed();
          });
        }
        drain.finish();
      } catch (const WriteFailed&) {
        ++thrown;
      }
      EXPECT_EQ(thrown, 1) << "slots " << rings.slots << ", at " << at;
      drain.finish();
      // It has forgotten the error and what was left to write.
      std::atomic<int> written = 0;
      for (std::uint64_t i = 0; i < count; ++i) {
        producer.push(drain, i, slot_bytes, [&written, wanted = value(i)](const std::byte* data) {
          written += std::memcmp(data, wanted.data(), wanted.size()) == 0;
        });
      }
      drain.finish();
      EXPECT_EQ(written, static_cast<int>(count));
    }
  }
}

TEST(Drain, MayGoBeforeAllIsWritten) {
  const auto device = test::make_backend();
  for (const Rings& rings : all_rings) {
    for (const std::uint64_t pushed : {0UL, 1UL, rings.slots}) {
      std::atomic<int> begun = 0, ended = 0;
      {
        measure::Recorder recorder;
        Producer producer(*device, rings.slots);
        Drain drain(*device, recorder, slot_bytes, rings.slots, rings.writers);
        for (std::uint64_t i = 0; i < pushed; ++i) {
          producer.push(drain, i, slot_bytes, [&](const std::byte*) {
            ++begun;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            ++ended;
          });
        }
      }
      EXPECT_EQ(begun, ended);
      EXPECT_LE(static_cast<std::uint64_t>(ended), pushed);
    }
  }
}

TEST(Drain, RefusesWhatFitsIntoNoSlot) {
  const auto device = test::make_backend();
  measure::Recorder recorder;
  Producer producer(*device, 1);
  Drain drain(*device, recorder, 100, 1, 1);
  EXPECT_THROW(producer.push(drain, 0, 101, [](const std::byte*) { FAIL(); }), ContractError);
  drain.finish();
  EXPECT_THROW(Drain(*device, recorder, 100, 1, 2), ContractError);
  EXPECT_THROW(Drain(*device, recorder, 100, 1, 0), ContractError);
}

}  // namespace
}  // namespace shardstream::pipeline
