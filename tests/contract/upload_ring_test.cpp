// The ring of uploads on every backend: all bytes reach the kernels at their positions for any
// sizes of pieces, kernels see the writes of arrivals, and an error anywhere ends the run.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "kernels/memory/memory.hpp"
#include "pipeline/upload_ring.hpp"
#include "support/backend.hpp"

namespace shardstream::pipeline {
namespace {

using device::Buffer;
using device::Memory;

constexpr std::size_t batch_bytes = 32768, slot_bytes = 8192;

/// The value of byte `offset` of a batch.
std::byte value(std::uint64_t batch, std::size_t offset) {
  return static_cast<std::byte>(31 * batch + 7 * offset + offset / 251 + 1);
}

struct Layout {
  std::string name;
  std::uint64_t batches;
  std::vector<UploadPiece> pieces;
};

/// Consecutive pieces with these sizes in turn, up to `bytes` bytes of each batch.
Layout in_order(const std::string& name, std::uint64_t batches, std::size_t bytes,
                const std::vector<std::size_t>& sizes) {
  Layout layout{name, batches, {}};
  std::size_t turn = 0;
  for (std::uint64_t batch = 0; batch < batches; ++batch) {
    for (std::size_t offset = 0; offset < bytes;) {
      const std::size_t size = std::min(sizes[turn++ % sizes.size()], bytes - offset);
      layout.pieces.push_back({batch, offset, size});
      offset += size;
    }
  }
  return layout;
}

std::vector<Layout> layouts() {
  std::vector<Layout> all = {
      in_order("batches of one piece", 7, 5000, {5000}),
      in_order("batches of one byte", 5, 1, {1}),
      in_order("whole slots", 6, batch_bytes, {slot_bytes}),
      in_order("many pieces", 4, batch_bytes, {1, 13, slot_bytes, 263, 512}),
      {"backwards, with gaps", 2, {{0, 9000, 100}, {0, 0, 8192}, {1, 32767, 1}, {1, 5, 6}}},
      {"rows", 3, {{0, 64, 500, 5, 160}, {0, 2000, 8192, 2, 8000}, {2, 0, 30, 30, 3}}},
      {"one among batches without pieces", 9, {{4, 16, 4000}}},
      {"first and last without pieces", 6, {{1, 0, 10}, {1, 10, 10}, {3, 0, 8000}, {4, 0, 1}}},
      {"no pieces at all", 5, {}},
      {"no batches", 0, {}}};
  return all;
}

std::vector<RingSizes> all_sizes() {
  return {{slot_bytes, 3, 2, batch_bytes, 2},
          {slot_bytes, 1, 1, batch_bytes, 1},
          {slot_bytes, 7, 4, batch_bytes, 3},
          {0, 0, 0, batch_bytes, 2},
          {0, 0, 0, batch_bytes, 3}};
}

/// A job that uploads all of `source`, batch by batch. The caller sets on_batch.
UploadRing::Job job_on(const Layout& layout, const Buffer<std::byte>& source) {
  UploadRing::Job job;
  job.batches = layout.batches;
  job.pieces = layout.pieces.size();
  job.piece = [&](std::uint64_t number) { return layout.pieces[number]; };
  job.read = [&](std::uint64_t number, std::byte* slot) -> const std::byte* {
    const UploadPiece& piece = layout.pieces[number];
    const std::byte* const from = source.data() + piece.batch * batch_bytes + piece.offset;
    if (slot == nullptr) return from;
    std::memcpy(slot, from, piece.bytes);
    return slot;
  };
  return job;
}

Buffer<std::byte> source_for(device::Device& device, std::uint64_t batches) {
  Buffer<std::byte> source(device, Memory::pinned, batches * batch_bytes);
  for (std::size_t i = 0; i < source.size(); ++i) {
    source[i] = value(i / batch_bytes, i % batch_bytes);
  }
  return source;
}

/// Checks that every piece of `source` and each of its rows has arrived at its position.
void expect_all_there(const Layout& layout, const Buffer<std::byte>& source,
                      const Buffer<std::byte>& seen, const std::string& what) {
  for (const UploadPiece& piece : layout.pieces) {
    const std::size_t at = piece.batch * batch_bytes + piece.offset;
    const std::size_t row = piece.bytes / piece.rows;
    for (std::size_t i = 0; i < piece.rows; ++i) {
      const std::byte* const there = seen.data() + at + i * piece.pitch;
      ASSERT_EQ(std::memcmp(there, source.data() + at + i * row, row), 0)
          << what << ", batch " << piece.batch << ", offset " << piece.offset << ", row " << i;
    }
  }
}

std::uint64_t calls(const measure::DeviceTrack& track) {
  std::uint64_t sum = 0;
  for (const auto& phase : track.phases()) sum += phase.calls;
  return sum;
}

TEST(UploadRing, BringsEveryPieceToItsPlace) {
  const auto device = test::make_backend();
  for (const Layout& layout : layouts()) {
    const auto source = source_for(*device, layout.batches);
    for (const RingSizes& sizes : all_sizes()) {
      const std::string what = layout.name + ", readers " + std::to_string(sizes.readers);
      measure::Recorder recorder;
      ranks::Heartbeat heartbeat;
      const Buffer<std::byte> seen(*device, Memory::pinned, source.size());
      UploadRing ring(*device, recorder, sizes, &heartbeat);
      for (int round = 0; round < 3; ++round) {
        std::fill_n(seen.data(), seen.size(), std::byte{0});
        std::uint64_t next = 0;
        auto job = job_on(layout, source);
        job.on_batch = [&](device::Stream& compute, std::uint64_t batch, const std::byte* data) {
          EXPECT_EQ(batch, next++) << what;
          compute.download(seen.data() + batch * batch_bytes, data, batch_bytes);
        };
        ring.run(job);
        ring.compute().synchronize();
        EXPECT_EQ(next, layout.batches) << what;
        expect_all_there(layout, source, seen, what);
      }
      if (layout.batches > 0) {
        EXPECT_EQ(heartbeat.pulse().step, "batch " + std::to_string(layout.batches - 1)) << what;
      }
      recorder.settle();
      ASSERT_EQ(recorder.device_tracks().size(), 2U) << what;
      EXPECT_EQ(calls(recorder.device_tracks()[1]), 3 * layout.batches) << what;
    }
  }
}

/// Arrivals copy the first half of a batch to its second half, which the kernels read.
TEST(UploadRing, ArrivalsSeeWholeBatchesAndKernelsTheirWrites) {
  constexpr std::size_t half = batch_bytes / 2;
  const auto device = test::make_backend();
  for (const Layout& layout :
       {in_order("one piece", 9, slot_bytes, {slot_bytes}), in_order("many", 5, half, {13, 4000}),
        in_order("large", 5, half, {slot_bytes}), Layout{"without pieces", 4, {{2, 0, 16}}}}) {
    const auto source = source_for(*device, layout.batches);
    for (RingSizes sizes : all_sizes()) {
      sizes.arrivals = true;
      const std::string what = layout.name + ", readers " + std::to_string(sizes.readers);
      measure::Recorder recorder;
      const Buffer<std::byte> seen(*device, Memory::pinned, source.size());
      UploadRing ring(*device, recorder, sizes);
      for (int round = 0; round < 3; ++round) {
        std::fill_n(seen.data(), seen.size(), std::byte{0});
        std::vector<std::string> order, wanted;
        auto job = job_on(layout, source);
        job.on_arrival = [&](device::Stream& arrive, std::uint64_t batch, std::byte* data) {
          order.push_back("arrival " + std::to_string(batch));
          EXPECT_NE(&arrive, &ring.compute());
          arrive.launch(memory::copy_kernel(), {data, data + half, half});
        };
        job.on_batch = [&](device::Stream& compute, std::uint64_t batch, const std::byte* data) {
          order.push_back("kernels " + std::to_string(batch));
          compute.download(seen.data() + batch * batch_bytes, data + half, half);
        };
        ring.run(job);
        ring.compute().synchronize();
        for (std::uint64_t batch = 0; batch < layout.batches; ++batch) {
          wanted.push_back("arrival " + std::to_string(batch));
          wanted.push_back("kernels " + std::to_string(batch));
        }
        EXPECT_EQ(order, wanted) << what;
        expect_all_there(layout, source, seen, what);
      }
      recorder.settle();
      ASSERT_EQ(recorder.device_tracks().size(), 3U) << what;
      EXPECT_EQ(recorder.device_tracks()[1].name(), "arrive") << what;
      EXPECT_EQ(calls(recorder.device_tracks()[1]), 3 * layout.batches) << what;
    }
  }
}

/// The kernels of several batches, as many as the ring has, are enqueued with the last of them.
TEST(UploadRing, ABatchStaysUntilItsLastUse) {
  const auto device = test::make_backend();
  for (const Layout& layout : layouts()) {
    const auto source = source_for(*device, layout.batches);
    for (RingSizes sizes : all_sizes()) {
      for (const bool arrivals : {false, true}) {
        sizes.arrivals = arrivals;
        const std::string what = layout.name + ", readers " + std::to_string(sizes.readers);
        measure::Recorder recorder;
        const Buffer<std::byte> seen(*device, Memory::pinned, source.size());
        UploadRing ring(*device, recorder, sizes);
        for (int round = 0; round < 3; ++round) {
          std::fill_n(seen.data(), seen.size(), std::byte{0});
          auto job = job_on(layout, source);
          if (arrivals) job.on_arrival = [](device::Stream&, std::uint64_t, std::byte*) {};
          job.last_use = [&](std::uint64_t batch) {
            const std::uint64_t last = batch / sizes.batches * sizes.batches + sizes.batches - 1;
            return std::min(last, layout.batches - 1);
          };
          job.on_batch = [&](device::Stream& compute, std::uint64_t batch, const std::byte*) {
            if (job.last_use(batch) != batch) return;
            for (std::uint64_t one = batch / sizes.batches * sizes.batches; one <= batch; ++one) {
              compute.download(seen.data() + one * batch_bytes, ring.data(one), batch_bytes);
            }
          };
          ring.run(job);
          ring.compute().synchronize();
          expect_all_there(layout, source, seen, what);
        }
      }
    }
  }
}

/// A reader delays a batch until the previous one has been used twice.
TEST(UploadRing, ComputesWhileItWaits) {
  const auto device = test::make_backend();
  const Layout layout = in_order("batches", 6, batch_bytes, {slot_bytes});
  const auto source = source_for(*device, layout.batches);
  for (const RingSizes& sizes : all_sizes()) {
    // Without readers, nothing waits; a single buffer is released by the kernels of its batch.
    if (sizes.readers == 0 || sizes.batches == 1) continue;
    measure::Recorder recorder;
    const Buffer<std::byte> seen(*device, Memory::pinned, 2 * source.size());
    UploadRing ring(*device, recorder, sizes);
    std::array<std::atomic<int>, 6> times{};
    std::uint64_t there = 0;
    auto job = job_on(layout, source);
    job.read = [&, read = job.read](std::uint64_t number, std::byte* slot) {
      const std::uint64_t batch = layout.pieces[number].batch;
      while (batch > 0 && times[batch - 1] < 2) std::this_thread::yield();
      return read(number, slot);
    };
    job.on_batch = [&](device::Stream&, std::uint64_t batch, const std::byte*) {
      there = batch + 1;
    };
    job.last_use = [&](std::uint64_t batch) { return std::min(batch + 1, layout.batches - 1); };
    job.meanwhile = [&] {
      if (there == 0 || times[there - 1] == 2) return false;
      const std::uint64_t batch = there - 1;
      ring.run_kernels(batch, ring.data(batch), batch_bytes,
                       [&](device::Stream& compute, std::uint64_t, const std::byte* data) {
                         const std::size_t at = (2 * batch + times[batch]) * batch_bytes;
                         compute.download(seen.data() + at, data, batch_bytes);
                       });
      ++times[batch];
      return true;
    };
    ring.run(job);
    ring.compute().synchronize();
    for (std::uint64_t batch = 0; batch + 1 < layout.batches; ++batch) {
      const std::byte* const wanted = source.data() + batch * batch_bytes;
      for (const std::uint64_t time : {0, 1}) {
        ASSERT_EQ(std::memcmp(seen.data() + (2 * batch + time) * batch_bytes, wanted, batch_bytes),
                  0)
            << "batch " << batch << ", time " << time << ", readers " << sizes.readers;
      }
    }
  }
}

struct GateArgs {
  const std::atomic<int>* times;
  int wanted;
};
/// Opens once *times has reached the requested number, or after a time limit, so that a test fails.
void gate(const GateArgs& args, unsigned part, unsigned) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (part == 0 && *args.times < args.wanted && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
}

/// An arrival lasts until the previous batch has been used twice.
TEST(UploadRing, ComputesWhileABatchArrives) {
  const auto device = test::make_backend();
  if (device->info().backend != "host") GTEST_SKIP() << "no kernel of a GPU waits for the host";
  const Layout layout = in_order("batches", 6, batch_bytes, {slot_bytes});
  const auto source = source_for(*device, layout.batches);
  for (RingSizes sizes : all_sizes()) {
    if (sizes.batches == 1) continue;  // released by the kernels of its batch
    sizes.arrivals = true;
    measure::Recorder recorder;
    UploadRing ring(*device, recorder, sizes);
    std::array<std::atomic<int>, 6> times{};
    std::array<int, 6> before_arrival{};
    std::uint64_t there = 0;
    auto job = job_on(layout, source);
    job.on_arrival = [&](device::Stream& arrive, std::uint64_t batch, std::byte*) {
      if (batch == 0) return;
      before_arrival[batch - 1] = times[batch - 1];
      const Kernel<GateArgs> kernel{"gate", gate, nullptr};
      arrive.launch(kernel, {&times[batch - 1], before_arrival[batch - 1] + 2});
    };
    job.on_batch = [&](device::Stream&, std::uint64_t batch, const std::byte*) {
      if (batch > 0) {
        EXPECT_GE(times[batch - 1], before_arrival[batch - 1] + 2)
            << "batch " << batch << ", readers " << sizes.readers;
      }
      there = batch + 1;
    };
    job.last_use = [&](std::uint64_t batch) { return std::min(batch + 1, layout.batches - 1); };
    job.meanwhile = [&] {
      if (there > 0) ++times[there - 1];
      return there > 0;
    };
    ring.run(job);
    ring.compute().synchronize();
  }
}

/// If the last use never came, or came after the buffer is needed for the next batch, readers would
/// wait for ever.
TEST(UploadRing, RejectsALastUseThatIsTooLate) {
  const auto device = test::make_backend();
  const Layout layout = in_order("batches", 6, batch_bytes, {slot_bytes});
  const auto source = source_for(*device, layout.batches);
  for (const RingSizes& sizes : all_sizes()) {
    const std::function<std::uint64_t(std::uint64_t)> wrong[] = {
        [&](std::uint64_t batch) { return batch + sizes.batches; },
        [](std::uint64_t batch) { return batch == 2 ? 1 : batch; },
        [](std::uint64_t batch) { return batch == 5 ? 6 : batch; }};
    for (const auto& last_use : wrong) {
      measure::Recorder recorder;
      UploadRing ring(*device, recorder, sizes);
      auto job = job_on(layout, source);
      job.last_use = last_use;
      EXPECT_THROW(ring.run(job), ContractError) << sizes.readers;
    }
  }
}

/// A reader may read more bytes than it uploads, up to the size of the slot, and compact them
/// there.
TEST(UploadRing, AReaderHasAllOfItsSlot) {
  const auto device = test::make_backend();
  const Layout layout = in_order("quarters", 5, batch_bytes, {slot_bytes / 4});
  const auto source = source_for(*device, layout.batches);
  for (const RingSizes& sizes : all_sizes()) {
    if (sizes.readers == 0) continue;
    measure::Recorder recorder;
    const Buffer<std::byte> seen(*device, Memory::pinned, source.size());
    UploadRing ring(*device, recorder, sizes);
    auto job = job_on(layout, source);
    job.read = [&, read = job.read](std::uint64_t piece, std::byte* slot) {
      std::fill_n(slot, slot_bytes, std::byte{0xee});
      return read(piece, slot);
    };
    job.on_batch = [&](device::Stream& compute, std::uint64_t batch, const std::byte* data) {
      compute.download(seen.data() + batch * batch_bytes, data, batch_bytes);
    };
    ring.run(job);
    ring.compute().synchronize();
    EXPECT_TRUE(std::equal(seen.data(), seen.data() + seen.size(), source.data()));
  }
}

struct Failed : std::runtime_error {
  Failed() : std::runtime_error("no") {}
};

TEST(UploadRing, AnErrorAnywhereEndsTheRun) {
  const auto device = test::make_backend();
  const Layout layout = in_order("many", 12, batch_bytes, {slot_bytes, 100, 5000});
  const auto source = source_for(*device, layout.batches);
  for (const char* where : {"read", "arrival", "batch"}) {
    for (const std::uint64_t at : {0, 5, 11}) {
      for (RingSizes sizes : all_sizes()) {
        sizes.arrivals = true;
        const auto fails = [&](const char* here, std::uint64_t batch) {
          if (std::string(where) == here && batch == at) throw Failed();
        };
        measure::Recorder recorder;
        UploadRing ring(*device, recorder, sizes);
        auto job = job_on(layout, source);
        job.read = [&, read = job.read](std::uint64_t piece, std::byte* slot) {
          fails("read", layout.pieces[piece].batch);
          return read(piece, slot);
        };
        std::uint64_t computed = 0;
        job.on_arrival = [&](device::Stream&, std::uint64_t batch, std::byte*) {
          fails("arrival", batch);
        };
        job.on_batch = [&](device::Stream&, std::uint64_t batch, const std::byte*) {
          fails("batch", batch);
          ++computed;
        };
        EXPECT_THROW(ring.run(job), Failed) << where << " " << at << " " << sizes.readers;
        EXPECT_LE(computed, at) << where;
      }
    }
  }
}

TEST(UploadRing, RejectsImpossiblePieces) {
  const auto device = test::make_backend();
  const auto source = source_for(*device, 3);
  for (const std::vector<UploadPiece>& pieces : std::vector<std::vector<UploadPiece>>{
           {{0, batch_bytes - 8, 9}},          // ends after the batch
           {{0, 0, 0}},                        // empty
           {{0, 0, 8}, {1, 0, 8}, {0, 8, 8}},  // of an earlier batch
           {{0, 0, 8}, {3, 0, 8}}}) {          // of a batch that does not exist
    const Layout layout{"", 3, pieces};
    for (const unsigned readers : {0U, 1U}) {
      measure::Recorder recorder;
      UploadRing ring(*device, recorder, {slot_bytes, readers, readers, batch_bytes, 2});
      auto job = job_on(layout, source);
      EXPECT_THROW(ring.run(job), ContractError) << pieces.size() << " pieces, " << readers;
    }
  }
  measure::Recorder recorder;
  UploadRing ring(*device, recorder, {8, 1, 1, batch_bytes, 2});
  const Layout larger_than_a_slot{"", 1, {{0, 0, 9}}};
  EXPECT_THROW(ring.run(job_on(larger_than_a_slot, source)), ContractError);
  auto job = job_on({"", 1, {}}, source);
  job.on_arrival = [](device::Stream&, std::uint64_t, std::byte*) {};
  EXPECT_THROW(ring.run(job), ContractError) << "arrivals that were not asked for";
}

}  // namespace
}  // namespace shardstream::pipeline
