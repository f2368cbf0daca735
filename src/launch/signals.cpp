#include "launch/signals.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
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
std::array<Path, RemoveOnSignal::most> paths_to_remove{};
std::array<char, 4096> last_words{};
std::atomic<std::size_t> length_of_words = 0;
std::atomic<int> told = -1;
std::atomic<bool> has_come = false, has_company = false, has_checkpoint = false;

constexpr int moment = 300;  // ms, for another rank's unlink(), or last words, on a busy machine

void remove_paths() {
  for (const Path& path : paths_to_remove) {
    if (path[0] != '\0') unlink(path.data());
  }
}

void say_last_words() {
  const auto length = length_of_words.exchange(0);  // once, whoever comes
  if (length > 0) [[maybe_unused]]
    const auto written = write(STDERR_FILENO, last_words.data(), length);
}

void remove_and_end(int number) {
  const bool keeps = has_checkpoint;  // what is finished from now on is lost
  if (keeps) {  // a second one must not end another thread, and so all, in its own way
    for (const int each : handled) ::signal(each, SIG_IGN);
  }
  remove_paths();
  say_last_words();
  has_come = true;
  const std::uint64_t one = 1;
  if (told >= 0) [[maybe_unused]]
    const auto written = write(told, &one, sizeof(one));
  if (has_company) poll(nullptr, 0, moment);  // the sleep that a signal handler may call
  if (keeps) _exit(static_cast<int>(ExitCode::checkpointed));
  // SA_RESETHAND has restored the default action, which ends the process.
  raise(number);
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

std::string full_path(const std::filesystem::path& path) {
  return path.empty() ? "" : std::filesystem::absolute(path).string();
}

}  // namespace

struct RemoveOnSignal::Before {
  std::array<std::string, most> paths;
  std::array<struct sigaction, handled.size()> actions{};
};

RemoveOnSignal::RemoveOnSignal(const std::vector<std::filesystem::path>& paths)
    : before_(std::make_unique<Before>()) {
  expect(paths.size() <= most, "a signal removes a few files");
  has_company = under_launcher();
  for (std::size_t i = 0; i < most; ++i) {
    before_->paths[i] = paths_to_remove[i].data();
    set_path(paths_to_remove[i], i < paths.size() ? full_path(paths[i]) : "");
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

void RemoveOnSignal::keep(const std::vector<std::filesystem::path>& paths,
                          const std::string& words) {
  for (const auto& path : paths) {
    for (Path& each : paths_to_remove) {
      if (full_path(path) == each.data()) set_path(each, "");
    }
  }
  has_checkpoint = true;
  const std::size_t length = std::min(words.size(), last_words.size());
  std::memcpy(last_words.data(), words.data(), length);
  length_of_words = length;
}

RemoveOnSignal::~RemoveOnSignal() {
  length_of_words = 0;
  has_checkpoint = false;
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
  say_last_words();
  _exit(static_cast<int>(code));
}

}  // namespace shardstream::launch
