// Proves that every wait of the pipeline is needed and that a missing one would be detected. This
// program runs itself once without a fault, which must succeed, and then once for each wait of that
// run, without this wait, which ThreadSanitizer must stop. It is skipped without ThreadSanitizer.
//
// Each schedule has one reader, since the waits of several readers depend on which of them is
// faster. A round uses each slot and each batch buffer equally often: otherwise, the first wait of
// the next round, for the last use, would make the waits for earlier uses unnecessary.
//
//   dropped_waits                                    the proof
//   dropped_waits SCHEDULE WAITER SIGNALLER NUMBER   one run without this wait
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "contract/faulty_device.hpp"
#include "device/forked_streams.hpp"
#include "pipeline/drain.hpp"
#include "pipeline/feed.hpp"
#include "pipeline/upload_ring.hpp"
#include "support/pipeline_inputs.hpp"

namespace {

using namespace shardstream;
using test::FaultyDevice;
using test::Wait;
using test::Waiter;

#ifdef __SANITIZE_THREAD__
constexpr bool sees_races = true;
#else
constexpr bool sees_races = false;
#endif

// Exit codes of a run; the last one is ThreadSanitizer's.
constexpr int right = 0, wrong_sums = 1, not_met = 2, race_found = 66;

constexpr std::uint64_t slot = 4096;  // elements

struct SumArgs {
  const std::int64_t* values;
  std::uint64_t count;
  std::int64_t* sum;
};
void sum_values(const SumArgs& args, unsigned part, unsigned) {
  if (part != 0) return;
  *args.sum = 0;
  for (std::uint64_t i = 0; i < args.count; ++i) *args.sum += args.values[i];
}
constexpr Kernel<SumArgs> sum_kernel{"sum", sum_values, nullptr};

/// The sum of a range of a source's elements.
std::int64_t sum_of(Range elements) {
  std::int64_t sum = 0;
  for (std::uint64_t i = 0; i < elements.count; ++i) {
    sum += test::RampSource::value(elements.first + i);
  }
  return sum;
}

/// Sets values[i] to from + step * i, or adds it.
struct RampArgs {
  std::int64_t* values;
  std::uint64_t count;
  std::int64_t from, step;
  bool add;
};
void make_ramp(const RampArgs& args, unsigned part, unsigned) {
  if (part != 0) return;
  for (std::uint64_t i = 0; i < args.count; ++i) {
    const std::int64_t value = args.from + args.step * static_cast<std::int64_t>(i);
    args.values[i] = args.add ? args.values[i] + value : value;
  }
}
constexpr Kernel<RampArgs> ramp_kernel{"ramp", make_ramp, nullptr};

/// Two passes over a small shard, one right after the other. The sums of the batches are downloaded
/// at the end. Returns whether they are right.
template <pipeline::Mode mode>
bool feeds(device::Device& device, test::Plan& plan) {
  constexpr std::uint64_t count = slot * 7 + 100;
  constexpr std::uint64_t rounds = 2;
  const pipeline::Sizes sizes{
      .mode = mode,
      .of = {.stored = sizeof(std::int64_t), .element = sizeof(std::int64_t)},
      .slot = slot,
      .slots = 4,
      .batch = 2 * slot,
      .batches = mode == pipeline::Mode::resident ? 4U : 2U,
      .readers = 1};
  const test::RampSource source(count);
  measure::Recorder recorder;
  pipeline::Feed feed(device, recorder, source, {0, count}, sizes);
  const auto keep = [](Range, const std::byte*) {};
  feed.load(keep);
  const device::Buffer<std::int64_t> sums(device, device::Memory::device, rounds * feed.batches());
  const device::Buffer<std::int64_t> seen(device, device::Memory::pinned, sums.size());
  plan.arm(true);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    feed.run(
        [&](device::Stream& compute, const pipeline::Batch& batch) {
          compute.launch(sum_kernel,
                         {reinterpret_cast<const std::int64_t*>(batch.data), batch.elements.count,
                          sums.data() + round * feed.batches() + batch.number});
        },
        keep);
  }
  feed.compute().download(seen.data(), sums.data(), sums.bytes());
  feed.compute().synchronize();
  bool all_right = true;
  for (std::uint64_t i = 0; i < seen.size(); ++i) {
    const Range batch = {i % feed.batches() * sizes.batch, sizes.batch};
    all_right = all_right && seen[i] == sum_of(intersection(batch, {0, count}));
  }
  plan.arm(false);
  return all_right;
}

/// The same with a stage in between that adds to every element in place.
bool arrives(device::Device& device, test::Plan& plan) {
  constexpr std::uint64_t batches = 4, pieces_a_batch = 2, batch_elements = pieces_a_batch * slot;
  constexpr std::uint64_t rounds = 2;
  constexpr std::size_t slot_bytes = slot * sizeof(std::int64_t);
  measure::Recorder recorder;
  const device::Buffer<std::int64_t> sums(device, device::Memory::device, rounds * batches);
  const device::Buffer<std::int64_t> seen(device, device::Memory::pinned, sums.size());
  pipeline::UploadRing ring(device, recorder,
                            {.slot_bytes = slot_bytes,
                             .slots = 4,
                             .readers = 1,
                             .batch_bytes = pieces_a_batch * slot_bytes,
                             .batches = 2,
                             .arrivals = true});
  std::uint64_t round = 0;
  pipeline::UploadRing::Job job;
  job.batches = batches;
  job.pieces = batches * pieces_a_batch;
  job.piece = [](std::uint64_t number) {
    return pipeline::UploadPiece{number / pieces_a_batch, number % pieces_a_batch * slot_bytes,
                                 slot_bytes};
  };
  job.read = [](std::uint64_t number, std::byte* to) {
    auto* values = reinterpret_cast<std::int64_t*>(to);
    for (std::uint64_t i = 0; i < slot; ++i) {
      values[i] = test::RampSource::value(number * slot + i);
    }
    return to;
  };
  job.on_arrival = [](device::Stream& arrive, std::uint64_t, std::byte* data) {
    arrive.launch(ramp_kernel, {reinterpret_cast<std::int64_t*>(data), batch_elements, 5, 0, true});
  };
  job.on_batch = [&](device::Stream& compute, std::uint64_t batch, const std::byte* data) {
    compute.launch(sum_kernel, {reinterpret_cast<const std::int64_t*>(data), batch_elements,
                                sums.data() + round * batches + batch});
  };
  plan.arm(true);
  for (; round < rounds; ++round) ring.run(job);
  ring.compute().download(seen.data(), sums.data(), sums.bytes());
  ring.compute().synchronize();
  // Each sum is compared: a batch without its arrival could compensate for one with two.
  bool all_right = true;
  for (std::uint64_t i = 0; i < seen.size(); ++i) {
    const std::int64_t wanted =
        sum_of({i % batches * batch_elements, batch_elements}) + 5 * batch_elements;
    all_right = all_right && seen[i] == wanted;
  }
  plan.arm(false);
  return all_right;
}

/// Each batch is used a second time, by the kernels of the next batch.
bool overlaps(device::Device& device, test::Plan& plan) {
  constexpr std::uint64_t batches = 4;
  constexpr std::size_t slot_bytes = slot * sizeof(std::int64_t);
  measure::Recorder recorder;
  const device::Buffer<std::int64_t> sums(device, device::Memory::device, 2 * batches);
  const device::Buffer<std::int64_t> seen(device, device::Memory::pinned, sums.size());
  pipeline::UploadRing ring(device, recorder, {slot_bytes, 3, 1, slot_bytes, 2});
  pipeline::UploadRing::Job job;
  job.batches = job.pieces = batches;
  job.piece = [](std::uint64_t number) { return pipeline::UploadPiece{number, 0, slot_bytes}; };
  job.read = [](std::uint64_t number, std::byte* to) {
    auto* values = reinterpret_cast<std::int64_t*>(to);
    for (std::uint64_t i = 0; i < slot; ++i) {
      values[i] = test::RampSource::value(number * slot + i);
    }
    return to;
  };
  const auto sum = [&](device::Stream& compute, std::uint64_t batch, std::uint64_t to) {
    compute.launch(sum_kernel, {reinterpret_cast<const std::int64_t*>(ring.data(batch)), slot,
                                sums.data() + to});
  };
  job.on_batch = [&](device::Stream& compute, std::uint64_t batch, const std::byte*) {
    sum(compute, batch, 2 * batch);
    sum(compute, batch > 0 ? batch - 1 : 0, 2 * batch + 1);
  };
  job.last_use = [](std::uint64_t batch) { return std::min(batch + 1, batches - 1); };
  plan.arm(true);
  ring.run(job);
  ring.compute().download(seen.data(), sums.data(), sums.bytes());
  ring.compute().synchronize();
  plan.arm(false);
  bool all_right = true;
  for (std::uint64_t i = 0; i < seen.size(); ++i) {
    const std::uint64_t batch = i / 2 - (i % 2 == 1 && i > 1 ? 1 : 0);
    all_right = all_right && seen[i] == sum_of({batch * slot, slot});
  }
  return all_right;
}

/// The sum of a slot of values first, first + 3, first + 6, ...
constexpr std::uint64_t ramp_sum(std::uint64_t first) {
  return slot * first + 3 * (slot * (slot - 1) / 2);
}

/// Tiles of two slots are made in two buffers in turn and drained, twice, with a finish() each
/// time. The writers of a tile do not end before its buffer is used for the next tile, so that
/// their end orders nothing.
bool drains(device::Device& device, test::Plan& plan) {
  constexpr std::uint64_t places = 2, tiles = 4, rounds = 2, rows = 2;
  constexpr std::size_t slot_bytes = slot * sizeof(std::int64_t);
  const device::Buffer<std::int64_t> memory(device, device::Memory::device, places * rows * slot);
  const auto compute = device.make_stream();
  const std::array made{device.make_event(), device.make_event()};
  std::vector<std::int64_t> sums(rounds * tiles * rows);
  std::vector<std::atomic<bool>> followed(rounds * tiles);
  const auto follow = [&](std::uint64_t number) {
    followed[number].store(true, std::memory_order_relaxed);
  };
  measure::Recorder recorder;
  pipeline::Drain drain(device, recorder, slot_bytes, places * rows, 2);
  plan.arm(true);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (std::uint64_t tile = 0; tile < tiles; ++tile) {
      const std::uint64_t number = round * tiles + tile, place = tile % places;
      std::int64_t* const values = memory.data() + place * rows * slot;
      if (tile >= places) drain.wait(*compute, number + 1 - places);
      compute->launch(ramp_kernel,
                      {values, rows * slot, static_cast<std::int64_t>(number), 3, false});
      compute->record(*made[place]);
      if (tile >= places) follow(number - places);
      drain.push(*made[place], reinterpret_cast<const std::byte*>(values), rows, slot_bytes,
                 [&, number](Range row, const std::byte* data) {
                   while (!followed[number].load(std::memory_order_relaxed)) {
                     std::this_thread::yield();
                   }
                   sum_values({reinterpret_cast<const std::int64_t*>(data), slot,
                               &sums[number * rows + row.first]},
                              0, 1);
                 });
    }
    for (std::uint64_t tile = tiles - places; tile < tiles; ++tile) follow(round * tiles + tile);
    drain.finish();
  }
  plan.arm(false);
  bool all_right = true;
  for (std::uint64_t i = 0; i < sums.size(); ++i) {
    const std::uint64_t first = i / rows + 3 * slot * (i % rows);
    all_right = all_right && sums[i] == static_cast<std::int64_t>(ramp_sum(first));
  }
  return all_right;
}

/// Two other streams sum the values of a stream, which then makes new ones.
bool forks(device::Device& device, test::Plan& plan) {
  constexpr std::uint64_t rounds = 2, parts = 3;
  const device::Buffer<std::int64_t> values(device, device::Memory::device, parts * slot);
  const device::Buffer<std::int64_t> sums(device, device::Memory::device, rounds * parts);
  const device::Buffer<std::int64_t> seen(device, device::Memory::pinned, sums.size());
  const auto stream = device.make_stream();
  device::ForkedStreams streams(device, parts);
  plan.arm(true);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const auto from = static_cast<std::int64_t>(round);
    stream->launch(ramp_kernel, {values.data(), values.size(), from, 3, false});
    streams.fork(*stream);
    for (std::uint64_t i = 0; i < parts; ++i) {
      streams[i].launch(sum_kernel,
                        {values.data() + i * slot, slot, sums.data() + round * parts + i});
    }
    streams.join();
  }
  stream->download(seen.data(), sums.data(), sums.bytes());
  stream->synchronize();
  plan.arm(false);
  bool all_right = true;
  for (std::uint64_t i = 0; i < seen.size(); ++i) {
    const std::uint64_t first = i / parts + 3 * slot * (i % parts);
    all_right = all_right && seen[i] == static_cast<std::int64_t>(ramp_sum(first));
  }
  return all_right;
}

/// The tested schedules. Only modes with different waits: write-combined has those of pinned,
/// mapped has none.
struct Schedule {
  const char* name;
  bool (*is_right)(device::Device& device, test::Plan& plan);
};
constexpr std::array schedules = {Schedule{"stream", feeds<pipeline::Mode::stream>},
                                  Schedule{"pageable", feeds<pipeline::Mode::pageable>},
                                  Schedule{"pinned", feeds<pipeline::Mode::pinned>},
                                  Schedule{"resident", feeds<pipeline::Mode::resident>},
                                  Schedule{"arrivals", arrives},
                                  Schedule{"last use", overlaps},
                                  Schedule{"drain", drains},
                                  Schedule{"forked streams", forks}};

/// One run; prints its waits, one per line.
int run_once(const Schedule& schedule, Wait fault) {
  FaultyDevice device(fault);
  const bool is_right = schedule.is_right(device, device.plan());
  for (const Wait& met : device.plan().met()) {
    fmt::print("{} {} {}\n", static_cast<int>(met.waiter), met.signaller, met.number);
  }
  if (!is_right) return wrong_sums;
  return fault == Wait{} || device.plan().met_fault() ? right : not_met;
}

struct Outcome {
  int code;
  std::string output;
};

Outcome run_child(const std::string& program, std::size_t schedule, Wait fault) {
  const std::string command =
      fmt::format("'{}' {} {} {} {} 2>/dev/null", program, schedule, static_cast<int>(fault.waiter),
                  fault.signaller, fault.number);
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {-1, ""};
  std::string output;
  for (char part[256]; fgets(part, sizeof(part), pipe) != nullptr;) output += part;
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

/// Whether one of several tries without the wait is detected: on a busy machine, even the slow
/// stream may be finished before the other one continues. `last` is the exit code of the last try.
bool shows(const std::string& program, std::size_t schedule, Wait fault, int& last) {
  constexpr int tries = 20;
  for (int attempt = 0; attempt < tries; ++attempt) {
    last = run_child(program, schedule, fault).code;
    if (last == race_found || last == wrong_sums) return true;
    if (last != right) return false;  // an error of another kind
  }
  return false;
}

/// Leaves out every wait of one schedule in turn. Returns the number of undetected ones.
int prove(const std::string& program, std::size_t schedule) {
  const char* const name = schedules[schedule].name;
  const Outcome clean = run_child(program, schedule, {});
  if (clean.code != right) {
    fmt::print("{}: the run without a fault ended with {}\n", name, clean.code);
    return 1;
  }
  int met = 0, unseen = 0;
  for (std::size_t line = 0; line < clean.output.size(); line = clean.output.find('\n', line) + 1) {
    int waiter = 0, signaller = 0, number = 0;
    if (std::sscanf(clean.output.c_str() + line, "%d %d %d", &waiter, &signaller, &number) != 3) {
      break;
    }
    ++met;
    int code = 0;
    if (shows(program, schedule, {static_cast<Waiter>(waiter), signaller, number}, code)) continue;
    ++unseen;
    fmt::print("{}: wait {} of waiter {} for stream {} {}, and the run ended with {}\n", name,
               number, waiter, signaller, code == not_met ? "did not come again" : "was left out",
               code);
  }
  fmt::print("{}: {} of {} left-out waits were seen\n", name, met - unseen, met);
  return unseen + (met == 0 ? 1 : 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (!sees_races) {
    fmt::print("SKIP: only ThreadSanitizer sees a missing wait (preset tsan)\n");
    return 77;
  }
  if (argc == 5) {
    return run_once(
        schedules.at(static_cast<std::size_t>(std::atoi(argv[1]))),
        {static_cast<Waiter>(std::atoi(argv[2])), std::atoi(argv[3]), std::atoi(argv[4])});
  }
  int failures = 0;
  for (std::size_t i = 0; i < schedules.size(); ++i) failures += prove(argv[0], i);
  return failures == 0 ? 0 : 1;
}
