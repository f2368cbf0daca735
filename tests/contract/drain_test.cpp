// The drain on every backend: pushed data are written once and unchanged, whatever happens to the
// device memory and the slots afterwards; and errors of writers are thrown.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "kernels/memory/memory.hpp"
#include "pipeline/drain.hpp"
#include "support/backend.hpp"

namespace shardstream::pipeline {
namespace {

using device::Buffer;
using device::Memory;

constexpr std::size_t tile_bytes = 65536;
constexpr std::uint64_t tiles = 2;

std::vector<std::byte> value(std::uint64_t number) {
  std::vector<std::byte> bytes(tile_bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(57 * number + 3 * i + i / 253 + 1);
  }
  return bytes;
}

struct Shape {
  std::uint64_t rows;
  std::size_t row_bytes;

  std::size_t bytes() const { return rows * row_bytes; }
};
constexpr Shape whole_tile{16, tile_bytes / 16};

/// Makes tiles in device memory, one after another in a few buffers, and drains them.
class Producer {
 public:
  Producer(device::Device& device, std::uint64_t count)
      : from_(device, Memory::device, count * tile_bytes),
        tiles_(device, Memory::device, tiles * tile_bytes),
        compute_(device.make_stream()) {
    for (std::uint64_t i = 0; i < tiles; ++i) made_.push_back(device.make_event());
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto bytes = value(i);
      compute_->upload(from_.data() + i * tile_bytes, bytes.data(), bytes.size());
      compute_->synchronize();
    }
  }
  ~Producer() { compute_->synchronize(); }

  std::uint64_t push(Drain& drain, std::uint64_t number, Shape shape, Drain::Write write) {
    const std::uint64_t place = number % tiles;
    drain.wait(*compute_, pushed_[place]);
    std::byte* const tile = tiles_.data() + place * tile_bytes;
    compute_->launch(memory::copy_kernel(), {from_.data() + number * tile_bytes, tile, tile_bytes});
    compute_->record(*made_[place]);
    pushed_[place] = drain.push(*made_[place], tile, shape.rows, shape.row_bytes, std::move(write));
    return pushed_[place];
  }
  /// The first tile repeatedly, without changing it.
  std::uint64_t push_first(Drain& drain, Drain::Write write) {
    return drain.push(*made_[0], tiles_.data(), whole_tile.rows, whole_tile.row_bytes,
                      std::move(write));
  }
  device::Stream& compute() { return *compute_; }

 private:
  Buffer<std::byte> from_, tiles_;
  std::unique_ptr<device::Stream> compute_;
  std::vector<std::unique_ptr<device::Event>> made_;
  std::array<std::uint64_t, tiles> pushed_{};
};

/// Waits for `done` with a time limit. Returns whether it was done in time.
bool in_time(const std::function<bool()>& done) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!done() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return done();
}

struct Rings {
  std::uint64_t slots;
  unsigned writers;
};
constexpr Rings all_rings[] = {{1, 1}, {2, 2}, {3, 1}, {5, 3}};

/// In slots of one tile and of a part of it, with and without a remainder of rows.
TEST(Drain, WritesEveryRowOnceAndRepeats) {
  constexpr std::uint64_t count = 11;
  const Shape shapes[] = {whole_tile, {1, 1}, {1, 4096}, {5000, 13}, {263, 241}, {3, 4095}};
  const auto device = test::make_backend();
  for (const Rings& rings : all_rings) {
    for (const std::size_t slot_bytes : {tile_bytes, 3 * tile_bytes / 16, tile_bytes / 16}) {
      measure::Recorder recorder;
      ranks::Heartbeat heartbeat;
      Producer producer(*device, count);
      Drain drain(*device, recorder, slot_bytes, rings.slots, rings.writers, &heartbeat);
      drain.finish();  // nothing was pushed
      std::uint64_t bytes = 0, pieces = 0;
      for (std::uint64_t round = 0; round < 3; ++round) {
        std::vector<std::vector<std::byte>> seen(count);
        std::vector<std::atomic<std::uint64_t>> rows_seen(count);
        for (std::uint64_t i = 0; i < count; ++i) {
          const Shape shape = shapes[i % std::size(shapes)];
          bytes += shape.bytes();
          pieces += ceil_div(shape.rows, slot_bytes / shape.row_bytes);
          seen[i].resize(shape.bytes());
          const std::uint64_t number =
              producer.push(drain, i, shape, [&, i, shape](Range rows, const std::byte* data) {
                std::memcpy(seen[i].data() + rows.first * shape.row_bytes, data,
                            rows.count * shape.row_bytes);
                rows_seen[i] += rows.count;
              });
          EXPECT_EQ(number, round * count + i + 1);
        }
        drain.finish();
        for (std::uint64_t i = 0; i < count; ++i) {
          const Shape shape = shapes[i % std::size(shapes)];
          auto wanted = value(i);
          wanted.resize(shape.bytes());
          EXPECT_EQ(seen[i], wanted) << "push " << i << ", slots " << rings.slots;
          EXPECT_EQ(rows_seen[i], shape.rows) << "push " << i << ", slots " << rings.slots;
        }
      }
      EXPECT_GE(heartbeat.pulse().moves, pieces);
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
}

/// With slow writers, neither the tile nor the slot may be reused too early.
TEST(Drain, ASlotIsItsWritersUntilItIsWritten) {
  constexpr std::uint64_t count = 9;
  const auto device = test::make_backend();
  for (const Rings& rings : all_rings) {
    measure::Recorder recorder;
    Producer producer(*device, count);
    Drain drain(*device, recorder, tile_bytes / 2, rings.slots, rings.writers);
    std::atomic<unsigned> wrong = 0, begun = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      producer.push(drain, i, whole_tile, [&, i](Range rows, const std::byte* data) {
        const auto wanted = value(i);
        ++begun;
        // The first calls wait for one another, so all writers write at the same time.
        wrong += !in_time([&] { return begun >= rings.writers; });
        for (int look = 0; look < 3; ++look) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          wrong += std::memcmp(data, wanted.data() + rows.first * whole_tile.row_bytes,
                               rows.count * whole_tile.row_bytes) != 0;
        }
      });
    }
    drain.finish();
    EXPECT_EQ(wrong, 0U) << "slots " << rings.slots;
  }
}

/// No writer ends before everything is pushed, which is many times the size of the slots.
TEST(Drain, PushingDoesNotWaitForWriters) {
  constexpr std::uint64_t count = 40;
  const auto device = test::make_backend();
  for (const Rings& rings : all_rings) {
    measure::Recorder recorder;
    Producer producer(*device, 1);
    Drain drain(*device, recorder, tile_bytes, rings.slots, rings.writers);
    std::atomic<bool> all_pushed = false;
    std::atomic<unsigned> late = 0, wrong = 0;
    const auto write = [&, wanted = value(0)](Range, const std::byte* data) {
      late += !in_time([&] { return all_pushed.load(); });
      wrong += std::memcmp(data, wanted.data(), tile_bytes) != 0;
    };
    producer.push(drain, 0, whole_tile, write);
    for (std::uint64_t i = 1; i < count; ++i) {
      EXPECT_EQ(producer.push_first(drain, write), i + 1);
    }
    all_pushed = true;
    drain.finish();
    EXPECT_EQ(late, 0U) << "slots " << rings.slots;
    EXPECT_EQ(wrong, 0U) << "slots " << rings.slots;
  }
}

/// With a free slot, rows are downloaded although all writers are busy; otherwise they wait for
/// one.
TEST(Drain, WaitsOnlyForTheDownload) {
  const auto device = test::make_backend();
  for (const Rings& rings : all_rings) {
    measure::Recorder recorder;
    Producer producer(*device, 1);
    Drain drain(*device, recorder, tile_bytes, rings.slots, rings.writers);
    drain.wait(producer.compute(), 0);
    std::atomic<bool> waited = false;
    std::atomic<std::uint64_t> late = 0, begun = 0, ended = 0;
    const auto write = [&](Range, const std::byte*) {
      ++begun;
      late += !in_time([&] { return waited.load(); });
      ++ended;
    };
    producer.push(drain, 0, whole_tile, write);
    for (std::uint64_t i = 1; i < rings.writers; ++i) producer.push_first(drain, write);
    EXPECT_TRUE(in_time([&] { return begun == rings.writers; }));
    for (std::uint64_t i = rings.writers; i < rings.slots + 2; ++i) {
      producer.push_first(drain, write);
    }
    for (std::uint64_t i = 1; i <= rings.slots; ++i) drain.wait(producer.compute(), i);
    EXPECT_EQ(ended, 0U);
    waited = true;
    drain.wait(producer.compute(), rings.slots + 2);
    EXPECT_GE(ended, 2U);
    drain.finish();
    EXPECT_EQ(ended, rings.slots + 2);
    EXPECT_EQ(late, 0U) << "slots " << rings.slots;
    for (std::uint64_t i = 0; i <= rings.slots + 2; ++i) drain.wait(producer.compute(), i);
    EXPECT_THROW(drain.wait(producer.compute(), rings.slots + 3), ContractError);
  }
}

struct WriteFailed : std::runtime_error {
  WriteFailed() : std::runtime_error("the disk is full") {}
};

TEST(Drain, AnErrorOfAWriterIsThrownOnce) {
  constexpr std::uint64_t count = 12;
  const auto device = test::make_backend();
  for (const Rings& rings : all_rings) {
    for (const std::uint64_t at : {0, 5, 11}) {
      measure::Recorder recorder;
      Producer producer(*device, count);
      Drain drain(*device, recorder, tile_bytes / 4, rings.slots, rings.writers);
      int thrown = 0;
      try {
        for (std::uint64_t i = 0; i < count; ++i) {
          producer.push(drain, i, whole_tile, [at, i](Range, const std::byte*) {
            if (i >= at) throw WriteFailed();
          });
        }
        drain.finish();
      } catch (const WriteFailed&) {
        ++thrown;
      }
      EXPECT_EQ(thrown, 1) << "slots " << rings.slots << ", at " << at;
      drain.finish();
      // The error and the remaining rows are discarded.
      std::atomic<int> written = 0;
      for (std::uint64_t i = 0; i < count; ++i) {
        const auto write = [&written, wanted = value(i)](Range rows, const std::byte* data) {
          const std::size_t first = rows.first * whole_tile.row_bytes;
          written += std::memcmp(data, wanted.data() + first, tile_bytes / 4) == 0;
        };
        producer.push(drain, i, whole_tile, write);
      }
      drain.finish();
      EXPECT_EQ(written, 4 * static_cast<int>(count));
    }
  }
}

TEST(Drain, MayBeDestroyedBeforeAllIsWritten) {
  const auto device = test::make_backend();
  for (const Rings& rings : all_rings) {
    for (const std::uint64_t pushed : {0UL, 1UL, rings.slots + 3}) {
      std::atomic<int> begun = 0, ended = 0;
      {
        measure::Recorder recorder;
        Producer producer(*device, 1);
        Drain drain(*device, recorder, tile_bytes / 4, rings.slots, rings.writers);
        const auto write = [&](Range, const std::byte*) {
          ++begun;
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          ++ended;
        };
        if (pushed > 0) producer.push(drain, 0, whole_tile, write);
        for (std::uint64_t i = 1; i < pushed; ++i) producer.push_first(drain, write);
      }
      EXPECT_EQ(begun, ended);
      EXPECT_LE(static_cast<std::uint64_t>(ended), 4 * pushed);
    }
  }
}

/// After an error, the pushed memory may be freed before the drain: it is neither downloaded nor
/// used by a writer. A sanitizer reports any use.
TEST(Drain, OutlivesItsBuffersAfterAnError) {
  constexpr std::uint64_t count = 12;
  const auto device = test::make_backend();
  for (const Rings& rings : all_rings) {
    for (const std::uint64_t at : {0, 3, 11}) {
      measure::Recorder recorder;
      Drain drain(*device, recorder, tile_bytes / 4, rings.slots, rings.writers);
      std::atomic<bool> gone = false;
      std::atomic<int> late = 0, thrown = 0;
      struct Farewell {
        std::atomic<bool>& said;
        ~Farewell() { said = true; }
      };
      try {
        Producer producer(*device, count);
        std::vector<std::byte> there(count * tile_bytes);
        const Farewell first_to_go{gone};
        for (std::uint64_t i = 0; i < count; ++i) {
          producer.push(drain, i, whole_tile, [&, at, i](Range rows, const std::byte* data) {
            late += gone;
            if (i == at) throw WriteFailed();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            late += gone;
            if (gone) return;
            const std::size_t first = rows.first * whole_tile.row_bytes;
            std::memcpy(there.data() + i * tile_bytes + first, data, tile_bytes / 4);
          });
        }
        drain.finish();
      } catch (const WriteFailed&) {
        ++thrown;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      EXPECT_EQ(thrown, 1) << "slots " << rings.slots << ", at " << at;
      EXPECT_EQ(late, 0) << "slots " << rings.slots << ", at " << at;
      Producer producer(*device, 1);
      producer.push(drain, 0, whole_tile, [](Range, const std::byte*) {});
      drain.finish();
    }
  }
}

/// Also while the main thread waits for a download that never gets a slot.
TEST(Drain, AnErrorOfAWriterEndsAWait) {
  const auto device = test::make_backend();
  for (const Rings& rings : all_rings) {
    measure::Recorder recorder;
    Producer producer(*device, 1);
    Drain drain(*device, recorder, tile_bytes, rings.slots, rings.writers);
    std::atomic<bool> all_pushed = false;
    const auto fail = [&](Range, const std::byte*) {
      EXPECT_TRUE(in_time([&] { return all_pushed.load(); }));
      throw WriteFailed();
    };
    producer.push(drain, 0, whole_tile, fail);
    for (std::uint64_t i = 0; i < 20; ++i) producer.push_first(drain, fail);
    all_pushed = true;
    EXPECT_THROW(drain.wait(producer.compute(), 21), WriteFailed);
    drain.wait(producer.compute(), 21);  // its download is discarded
    drain.finish();
  }
}

TEST(Drain, RejectsRowsLargerThanASlot) {
  const auto device = test::make_backend();
  measure::Recorder recorder;
  Producer producer(*device, 1);
  Drain drain(*device, recorder, 100, 1, 1);
  for (const Shape shape : {Shape{1, 101}, Shape{0, 1}, Shape{1, 0}}) {
    EXPECT_THROW(producer.push(drain, 0, shape, [](Range, const std::byte*) { FAIL(); }),
                 ContractError);
  }
  drain.finish();
  EXPECT_THROW(Drain(*device, recorder, 100, 1, 2), ContractError);
  EXPECT_THROW(Drain(*device, recorder, 100, 1, 0), ContractError);
}

}  // namespace
}  // namespace shardstream::pipeline
