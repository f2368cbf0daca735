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
using Path = std::array<char, PATH_MAX>;
std::array<Path, 2> paths_to_remove{};
std::atomic<int> told = -1;
std::atomic<bool> has_come = false, has_company = false;

constexpr int moment = 300;  // ms, for another rank's unlink(), or last words, on a busy machine

void remove_paths() {
  for (const Path& path : paths_to_remove) {
    if (path[0] != '\0') unlink(path.data());
  }
}

void remove_and_end(int signal) {
  remove_paths();
  has_come = true;
  const std::uint64_t one = 1;
  if (told >= 0) [[maybe_unused]]
    const auto written = write(told, &one, sizeof(one));
  if (has_company) poll(nullptr, 0, moment);  // the sleep that a signal handler may call
  // SA_RESETHAND has restored the default action, which ends the process.
  raise(signal);
}

/// The first character is gone first and comes last: no signal sees half a path.
void set_path(Path& path, const std::string& text) {
  path[0] = '\0';
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (text.empty() || text.size() >= path.size()) return;  // no file can have that name
  std::memcpy(path.data() + 1, text.c_str() + 1, text.size());
  std::atomic_signal_fence(std::memory_order_seq_cst);
  path[0] = text[0];
}

}  // namespace

struct RemoveOnSignal::Before {
  std::array<std::string, 2> paths;
  std::array<struct sigaction, handled.size()> actions{};
};

RemoveOnSignal::RemoveOnSignal(const std::filesystem::path& path,
                               const std::filesystem::path& another)
    : before_(std::make_unique<Before>()) {
  has_company = under_launcher();
  const std::array paths = {&path, &another};
  for (std::size_t i = 0; i < paths.size(); ++i) {
    before_->paths[i] = paths_to_remove[i].data();
    set_path(paths_to_remove[i],
             paths[i]->empty() ? "" : std::filesystem::absolute(*paths[i]).string());
  }
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
  for (std::size_t i = 0; i < paths_to_remove.size(); ++i) {
    set_path(paths_to_remove[i], before_->paths[i]);
  }
}

void tell_of_signals(int descriptor) {
  told = descriptor;
}

bool signal_has_come() {
  return has_come;
}

void end_at_once(ExitCode code) {
  remove_paths();
  _exit(static_cast<int>(code));
}

}  // namespace shardstream::launch
