#include "watchdog/start_guard.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <system_error>

#include "core/error.hpp"
#include "core/log.hpp"
#include "ranks/session.hpp"
#include "ranks/signals.hpp"
#include "watchdog/process.hpp"

namespace shardstream::watchdog {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double print_time = 1;           // s, to print the message
constexpr double turn = 2;                 // s, in which a launcher ends the other ranks
constexpr std::uint64_t max_speakers = 3;  // ranks that may print, if those before them are silent

std::string host_of_this_process() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

}  // namespace

StartGuard::StartGuard(Stage stage, double timeout)
    : stage_(stage), limit_(std::max(timeout, min_seconds)), rank_(ranks::launched_rank()) {
  // Signals go to the main thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { wait(); });
  } catch (const std::system_error&) {  // see the header
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

StartGuard::~StartGuard() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StartGuard::wait() {
  constexpr double step = 0.5;  // s
  // Each rank gives those before it the time to end the job.
  const double limit =
      limit_ + turn * static_cast<double>(std::min(rank_.value_or(0), max_speakers));
  double waited = 0;
  std::unique_lock lock(mutex_);
  while (waited < limit) {
    const auto before = Clock::now();
    if (changed_.wait_for(lock, std::chrono::duration<double>(step), [this] { return is_over_; })) {
      return;
    }
    const std::chrono::duration<double> passed = Clock::now() - before;
    waited += std::min(passed.count(), 3 * step);  // this process may have been suspended
  }
  end_process();
}

void StartGuard::end_process() const {
  if (!rank_ || *rank_ < max_speakers) {
    const std::string what =
        stage_ == Stage::start
            ? fmt::format("the ranks have not started and connected within {:g} s", limit_)
            : fmt::format("the ranks have not ended within {:g} s after their work was complete",
                          limit_);
    const std::string message = fmt::format(
        "{} (comm.timeout, at least {:g} s), as process {} on {} sees it: look for a rank that is "
        "stopped (state T or D in ps) or a host that cannot be reached, or raise comm.timeout",
        what, min_seconds, ::getpid(), host_of_this_process());
    try_for(print_time, [&] { Log(rank_ ? fmt::format("rank {}", *rank_) : "").error(message); });
  }
  ranks::end_at_once(ExitCode::failed);
}

}  // namespace shardstream::watchdog
