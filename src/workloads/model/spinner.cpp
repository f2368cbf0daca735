#include "workloads/model/spinner.hpp"

#include <algorithm>
#include <thread>

#include "workloads/model/spin.hpp"

namespace shardstream::workloads::model {
namespace {

/// The time of one kernel or sleep: short for the watchdog, but long compared with a launch.
constexpr std::int64_t piece = 10'000'000;

std::int64_t nanoseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

}  // namespace

void Spent::add(std::int64_t part_asked, std::int64_t part_lasted) {
  asked += part_asked;
  lasted += part_lasted;
  min_excess = std::min(min_excess, part_lasted - part_asked);
}

Spinner::Spinner(runtime::Runtime& runtime, Spin spin)
    : runtime_(runtime),
      spin_(spin),
      track_(runtime.recorder.device_track("compute", *runtime.device)),
      counter_(*runtime.device, device::Memory::device, 1),
      sum_(*runtime.device, device::Memory::device, 1),
      staged_(*runtime.device, device::Memory::pinned, 1),
      stream_(runtime.device->make_stream()) {}

void Spinner::reset() {
  staged_[0] = 0;
  stream_->upload(counter_.data(), staged_.data(), staged_.bytes());
  stream_->synchronize();
}

std::int64_t Spinner::spend(std::string_view phase, measure::PhaseKind kind, std::int64_t asked,
                            Counts counts) {
  const auto span = runtime_.recorder.phase(phase, kind);
  const auto begin = Clock::now();
  std::uint64_t number = 0;
  for (std::int64_t done = 0; done < asked; ++number) {
    runtime_.session.heartbeat().step("piece", number);
    const std::int64_t part = std::min(piece, asked - done);
    done += part;
    // Deadlines count from the beginning, so the time of a launch shortens the next piece.
    spend_until(begin + std::chrono::nanoseconds(done), phase, kind,
                counts == Counts::work ? part : 0);
  }
  return nanoseconds(Clock::now() - begin);
}

void Spinner::spend_until(Clock::time_point deadline, std::string_view phase,
                          measure::PhaseKind kind, std::int64_t counted) {
  // A second round is rare: a GPU's clock may run a little faster than the host's.
  do {
    if (spin_ == Spin::sleep) {
      std::this_thread::sleep_until(deadline);
      launch(0, counted);
    } else {
      track_.begin(*stream_, phase, kind, 0, measure::no_batch);
      launch(std::max<std::int64_t>(0, nanoseconds(deadline - Clock::now())), counted);
      track_.end(*stream_);
    }
    stream_->synchronize();
    counted = 0;
  } while (Clock::now() < deadline);
}

void Spinner::launch(std::int64_t nanoseconds, std::int64_t counted) {
  stream_->launch(spin_kernel(), {.nanoseconds = nanoseconds,
                                  .multiprocessors = runtime_.device->info().multiprocessors,
                                  .counted = counted,
                                  .counter = counter_.data()});
}

std::int64_t Spinner::sum_of_all() {
  comm::Communicator& communicator = *runtime_.communicator;
  communicator.all_reduce(*stream_, counter_.data(), sum_.data(), 1, comm::SumType::i64);
  stream_->download(staged_.data(), sum_.data(), sum_.bytes());
  communicator.wait(*stream_);
  return staged_[0];
}

}  // namespace shardstream::workloads::model
