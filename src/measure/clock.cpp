#include "measure/clock.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <thread>
#include <utility>

namespace shardstream::measure {
namespace {

using ranks::check_mpi;

constexpr int round_trips = 64;
constexpr int tag = 1;

void send(std::int64_t* values, int count, int rank) {
  check_mpi(MPI_Send(values, count, MPI_INT64_T, rank, tag, MPI_COMM_WORLD), "MPI_Send");
}

void receive(std::int64_t* values, int count, int rank) {
  check_mpi(MPI_Recv(values, count, MPI_INT64_T, rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
            "MPI_Recv");
}

/// Rank 0's part of the comparison with one other rank, which then gets the result.
void ask(int rank) {
  ClockOffset best{.error_ns = std::numeric_limits<std::int64_t>::max()};
  for (int i = 0; i < round_trips; ++i) {
    std::int64_t theirs = 0;
    const std::int64_t before = steady_ns();
    send(&theirs, 1, rank);
    receive(&theirs, 1, rank);
    const std::int64_t after = steady_ns();
    const std::int64_t error = (after - before + 1) / 2;
    if (error < best.error_ns) best = {theirs, before + (after - before) / 2 - theirs, error};
  }
  std::array outcome{best.at_ns, best.offset_ns, best.error_ns};
  send(outcome.data(), 3, rank);
}

ClockOffset answer() {
  for (int i = 0; i < round_trips; ++i) {
    std::int64_t mine = 0;
    receive(&mine, 1, 0);
    mine = steady_ns();
    send(&mine, 1, 0);
  }
  std::array<std::int64_t, 3> outcome{};
  receive(outcome.data(), 3, 0);
  return {outcome[0], outcome[1], outcome[2]};
}

}  // namespace

std::int64_t steady_ns() {
  using namespace std::chrono;
  return nanoseconds(steady_clock::now().time_since_epoch()).count();
}

ClockOffset compare_clocks(const ranks::Session& session) {
  if (session.rank() > 0) return answer();
  for (int rank = 1; rank < session.size(); ++rank) ask(rank);
  return {.at_ns = steady_ns()};
}

std::int64_t ClockAlignment::on_rank0(std::int64_t mine_ns) const {
  const std::int64_t moved = end_.offset_ns - start_.offset_ns;
  const std::int64_t elapsed = end_.at_ns - start_.at_ns;
  if (std::abs(moved) <= start_.error_ns + end_.error_ns || elapsed == 0) {
    return mine_ns + (start_.error_ns <= end_.error_ns ? start_ : end_).offset_ns;
  }
  const double part = static_cast<double>(mine_ns - start_.at_ns) / static_cast<double>(elapsed);
  return mine_ns + start_.offset_ns + std::llround(static_cast<double>(moved) * part);
}

std::int64_t ClockAlignment::error() const {
  return std::max(start_.error_ns, end_.error_ns);
}

DeviceClock::DeviceClock(device::Device& device) : stream_(device.make_stream()) {
  for (Anchor* anchor : {&anchor_, &best_, &next_}) anchor->event = device.make_timed_event();
  renew();
}

void DeviceClock::renew() {
  constexpr int looks = 16;  // the first ones are slow, and any may be interrupted
  look(best_);
  for (int i = 1; i < looks; ++i) {
    look(next_);
    if (next_.error_ns < best_.error_ns) std::swap(next_, best_);
  }
  error_ = std::max(error_, best_.error_ns);
  if (anchored_) error_ = std::max(error_, std::abs(on_host(*best_.event) - best_.host_ns));
  std::swap(anchor_, best_);
  anchored_ = true;
}

std::int64_t DeviceClock::on_host(const device::Event& event) const {
  return anchor_.host_ns + std::llround(event.seconds_since(*anchor_.event) * 1e9);
}

void DeviceClock::look(Anchor& anchor) {
  const std::int64_t before = steady_ns();
  stream_->record(*anchor.event);
  while (!anchor.event->reached()) std::this_thread::yield();  // a sleeping thread would wake late
  const std::int64_t after = steady_ns();
  anchor.host_ns = before + (after - before) / 2;
  anchor.error_ns = (after - before + 1) / 2;
}

}  // namespace shardstream::measure
