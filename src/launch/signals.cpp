#include "launch/signals.hpp"

#include <fcntl.h>
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
using Paths = std::array<Path, RemoveOnSignal::max_paths>;
Paths paths_to_remove{}, paths_to_keep{};
std::atomic<int> told = -1;
std::atomic<bool> has_come = false, has_company = false, has_checkpoint = false;

/// A line with a place for what has ended the process.
struct Words {
  std::array<char, 4096> text{};
  std::size_t place = 0;  // of "{}"; `length` if it has none
  std::atomic<std::size_t> length = 0;

  void set(const std::string& words) {
    length = 0;
    const std::string line = words.substr(0, text.size());
    std::memcpy(text.data(), line.data(), line.size());
    place = std::min(line.find("{}"), line.size());
    length = line.size();
  }
  /// Writes the line once, whoever comes.
  void say(const char* by) {
    const std::size_t all = length.exchange(0);
    if (all == 0) return;
    std::array<char, sizeof(text) + 32> line{};
    std::size_t at = 0;
    const auto add = [&](const char* from, std::size_t bytes) {
      std::memcpy(line.data() + at, from, bytes);
      at += bytes;
    };
    add(text.data(), place);
    if (place < all) add(by, std::strlen(by));
    const std::size_t behind = std::min(place + 2, all);
    add(text.data() + behind, all - behind);
    [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), at);
  }
};
Words last_words;

// ms, on a busy machine: for another rank's unlink(), then for the last words
constexpr int time_to_remove = 200, time_to_speak = 100;

const char* by_signal(int number) {
  return number == SIGTERM ? " by SIGTERM" : number == SIGINT ? " by SIGINT" : " by SIGHUP";
}

void remove_all(const Paths& paths) {
  for (const Path& path : paths) {
    if (path[0] != '\0') unlink(path.data());
  }
}

/// Opening a file asks the server of a network file system, where stat() need not.
bool exists(const Path& path) {
  const int file = open(path.data(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return false;
  close(file);
  return true;
}

/// Removes what is not to stay, and tells whether the rest does.
bool keeps_checkpoint() {
  if (!has_checkpoint) return false;
  if (exists(paths_to_keep[0])) return true;
  remove_all(paths_to_keep);
  return false;
}

/// Tells the watchdog, which tells other ranks.
void announce() {
  has_come = true;
  const std::uint64_t one = 1;
  if (told >= 0) [[maybe_unused]]
    const auto written = write(told, &one, sizeof(one));
}

void remove_and_end(int number) {
  if (has_checkpoint) {  // a second one must not end another thread, and so all, in its own way
    for (const int each : handled) ::signal(each, SIG_IGN);
  }
  remove_all(paths_to_remove);
  announce();
  // poll() is the sleep that a signal handler may call.
  if (has_company) poll(nullptr, 0, time_to_remove);
  const bool keeps = keeps_checkpoint();  // what is finished from now on is lost
  if (keeps) last_words.say(by_signal(number));
  if (has_company) poll(nullptr, 0, time_to_speak);
  if (keeps) _exit(static_cast<int>(ExitCode::checkpointed));
  ::signal(number, SIG_DFL);
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
  std::array<std::string, max_paths> paths;
  std::array<struct sigaction, handled.size()> actions{};
};

RemoveOnSignal::RemoveOnSignal(const std::vector<std::filesystem::path>& paths)
    : before_(std::make_unique<Before>()) {
  expect(paths.size() <= max_paths, "a signal removes a few files");
  has_company = under_launcher();
  for (std::size_t i = 0; i < max_paths; ++i) {
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
  expect(!paths.empty() && paths.size() <= max_paths, "a signal keeps a few files");
  for (std::size_t i = 0; i < paths.size(); ++i) set_path(paths_to_keep[i], full_path(paths[i]));
  last_words.set(words);
  has_checkpoint = true;
  for (const auto& path : paths) {
    for (Path& each : paths_to_remove) {
      if (full_path(path) == each.data()) set_path(each, "");
    }
  }
}

RemoveOnSignal::~RemoveOnSignal() {
  has_checkpoint = false;
  last_words.set("");
  for (std::size_t i = 0; i < handled.size(); ++i) {
    sigaction(handled[i], &before_->actions[i], nullptr);
  }
  for (std::size_t i = 0; i < paths_to_remove.size(); ++i) {
    set_path(paths_to_remove[i], before_->paths[i]);
    set_path(paths_to_keep[i], "");
  }
}

void tell_of_signals(int descriptor) {
  told = descriptor;
}

void announce_end() {
  announce();
  poll(nullptr, 0, time_to_speak);
}

bool signal_has_come() {
  return has_come;
}

void end_at_once(ExitCode code) {
  remove_all(paths_to_remove);
  if (keeps_checkpoint()) last_words.say("");
  _exit(static_cast<int>(code));
}

}  // namespace shardstream::launch
