#include "launch/signals.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstdint>
#include <cstring>
#include <string>

#include "launch/session.hpp"

namespace shardstream::launch {
namespace {

constexpr std::array handled = {SIGTERM, SIGINT, SIGHUP};

// A signal handler can reach static memory only.
std::array<char, PATH_MAX> path_to_remove{};
std::atomic<int> told = -1;
std::atomic<bool> has_come = false, has_company = false;

constexpr int moment = 300;  // ms, for another rank's unlink(), or last words, on a busy machine

void remove_path() {
  if (path_to_remove[0] != '\0') unlink(path_to_remove.data());
}

void remove_and_end(int signal) {
  remove_path();
  has_come = true;
  const std::uint64_t one = 1;
  if (told >= 0) [[maybe_unused]]
    const auto written = write(told, &one, sizeof(one));
  if (has_company) poll(nullptr, 0, moment);  // the sleep that a signal handler may call
  // SA_RESETHAND has restored the default action, which ends the process.
  raise(signal);
}

/// The first character is gone first and comes last: no signal sees half a path.
void set_path(const std::string& text) {
  path_to_remove[0] = '\0';
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (text.empty() || text.size() >= path_to_remove.size()) return;  // no file can have that name
  std::memcpy(path_to_remove.data() + 1, text.c_str() + 1, text.size());
  std::atomic_signal_fence(std::memory_order_seq_cst);
  path_to_remove[0] = text[0];
}

}  // namespace

struct RemoveOnSignal::Before {
  std::string path;
  std::array<struct sigaction, handled.size()> actions{};
};

RemoveOnSignal::RemoveOnSignal(const std::filesystem::path& path)
    : before_(std::make_unique<Before>()) {
  has_company = under_launcher();
  before_->path = path_to_remove.data();
  set_path(path.empty() ? "" : std::filesystem::absolute(path).string());
  struct sigaction action {};
  action.sa_handler = remove_and_end;
  action.sa_flags = SA_RESETHAND;
  for (std::size_t i = 0; i < handled.size(); ++i) {
    sigaction(handled[i], nullptr, &before_->actions[i]);
    // nohup, and shells for what they start in the background, have signals ignored: so they stay.
    if (before_->actions[i].sa_handler != SIG_IGN) sigaction(handled[i], &action, nullptr);
  }
}

RemoveOnSignal::~RemoveOnSignal() {
  for (std::size_t i = 0; i < handled.size(); ++i) {
    sigaction(handled[i], &before_->actions[i], nullptr);
  }
  set_path(before_->path);
}

void tell_of_signals(int descriptor) {
  told = descriptor;
}

bool signal_has_come() {
  return has_come;
}

void end_at_once(ExitCode code) {
  remove_path();
  _exit(static_cast<int>(code));
}

}  // namespace shardstream::launch
