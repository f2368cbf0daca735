#include "scale/launch/interrupts.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>

#include "core/error.hpp"
#include "ranks/signals.hpp"

namespace shardstream::scale {
namespace {

/// The signals that this process does not ignore. The kernel keeps a blocked signal even if it is
/// ignored, so ignored ones must not be blocked.
sigset_t signal_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&set, signal);
  }
  return set;
}

}  // namespace

Interrupts::Interrupts(Log& log) : log_(log) {
  const sigset_t set = signal_set();
  signals_ = Descriptor(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  end_of_watch_ = Descriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!signals_.valid() || !end_of_watch_.valid()) {
    throw Error(
        fmt::format("signals cannot be received ({}): raise the limit of open files (ulimit -n)",
                    errno_text(errno)));
  }
  sigprocmask(SIG_BLOCK, &set, nullptr);  // also for the threads that this one starts
  begin_watch();
}

Interrupts::~Interrupts() {
  end_watch();
  const sigset_t set = signal_set();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

void Interrupts::begin_watch() {
  watcher_ = std::thread([this] { watch(); });
}

void Interrupts::end_watch() {
  std::uint64_t count = 1;
  [[maybe_unused]] auto bytes = write(end_of_watch_.get(), &count, sizeof count);
  watcher_.join();
  bytes = read(end_of_watch_.get(), &count, sizeof count);
}

/// The second thread: ends the process if a signal comes.
void Interrupts::watch() {
  std::array<pollfd, 2> sources = {pollfd{signals_.get(), POLLIN, 0},
                                   pollfd{end_of_watch_.get(), POLLIN, 0}};
  while (poll(sources.data(), sources.size(), -1) < 0) {
  }
  if (sources[0].revents == 0) return;
  log_.info("interrupted: run the same command again");
  ranks::end_at_once(ExitCode::checkpointed);
}

void Interrupts::note() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const bool warning = info.ssi_signo == SIGUSR1 ||
                         (info.ssi_signo == SIGTERM && std::getenv("SLURM_JOB_ID") != nullptr);
    request_ =
        warning && request_ == StopRequest::none ? StopRequest::after_launch : StopRequest::now;
  }
}

Interrupts::Deferral::~Deferral() {
  interrupts_.note();
  interrupts_.begin_watch();
}

StopRequest Interrupts::Deferral::request() {
  interrupts_.note();
  return interrupts_.request_;
}

bool Interrupts::Deferral::wait(int descriptor, std::chrono::milliseconds time) {
  std::array<pollfd, 2> sources = {pollfd{descriptor, POLLIN, 0},
                                   pollfd{interrupts_.signals_.get(), POLLIN, 0}};
  poll(sources.data(), sources.size(), static_cast<int>(time.count()));
  return sources[0].revents != 0;
}

}  // namespace shardstream::scale
