#include "ranks/signals.hpp"

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

#include "ranks/session.hpp"

namespace shardstream::ranks {
namespace {

constexpr std::array handled = {SIGTERM, SIGINT, SIGHUP};

// A signal handler can reach static memory only.
using Path = std::array<char, PATH_MAX>;
using Paths = std::array<Path, RemoveOnSignal::max_paths>;
Paths paths_to_remove{}, paths_to_keep{};
std::atomic<int> signal_eventfd = -1;
std::atomic<bool> has_come = false, has_other_ranks = false, has_checkpoint = false;

/// The last line of output, with a place for the name of the signal.
struct Words {
  std::array<char, 4096> text{};
  std::size_t place = 0;  // of "{}", or `length` if there is none
  std::atomic<std::size_t> length = 0;

  void set(const std::string& words) {
    length = 0;
    const std::string line = words.substr(0, text.size());
    std::memcpy(text.data(), line.data(), line.size());
    place = std::min(line.find("{}"), line.size());
    length = line.size();
  }
  /// Writes the line with `by` at its place. Only the first call writes.
  void print(const char* by) {
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
    const std::size_t rest = std::min(place + 2, all);
    add(text.data() + rest, all - rest);
    [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), at);
  }
};
Words last_words;

// Milliseconds that suffice on a busy machine for another rank to remove files and to print.
constexpr int time_to_remove = 200, time_to_print = 100;

const char* by_signal(int number) {
  return number == SIGTERM ? " by SIGTERM" : number == SIGINT ? " by SIGINT" : " by SIGHUP";
}

void remove_all(const Paths& paths) {
  for (const Path& path : paths) {
    if (path[0] != '\0') unlink(path.data());
  }
}

/// Opens the file because, on a network file system, stat() may not ask the server.
bool exists(const Path& path) {
  const int file = open(path.data(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return false;
  close(file);
  return true;
}

/// Whether there is a checkpoint to keep. If its first file does not exist, removes its other
/// files.
bool keeps_checkpoint() {
  if (!has_checkpoint) return false;
  if (exists(paths_to_keep[0])) return true;
  remove_all(paths_to_keep);
  return false;
}

/// Notifies the watchdog, which notifies the other ranks.
void announce() {
  has_come = true;
  const std::uint64_t one = 1;
  if (signal_eventfd >= 0) [[maybe_unused]]
    const auto written = write(signal_eventfd, &one, sizeof(one));
}

void remove_and_end(int number) {
  if (has_checkpoint) {  // a second signal, handled by another thread, must not end the process
    for (const int each : handled) ::signal(each, SIG_IGN);
  }
  remove_all(paths_to_remove);
  announce();
  // poll() is used to sleep since a signal handler may call it.
  if (has_other_ranks) poll(nullptr, 0, time_to_remove);
  const bool keeps = keeps_checkpoint();  // work that is finished from now on is lost
  if (keeps) last_words.print(by_signal(number));
  if (has_other_ranks) poll(nullptr, 0, time_to_print);
  if (keeps) _exit(static_cast<int>(ExitCode::checkpointed));
  ::signal(number, SIG_DFL);
  raise(number);
}

/// Clears the first character before the others are changed and writes it last, so that a signal
/// handler never sees half a path.
void set_path(Path& path, const std::string& text) {
  path[0] = '\0';
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (text.empty() || text.size() >= path.size()) return;  // no file can have a longer name
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
  has_other_ranks = under_launcher();
  for (std::size_t i = 0; i < max_paths; ++i) {
    before_->paths[i] = paths_to_remove[i].data();
    set_path(paths_to_remove[i], i < paths.size() ? full_path(paths[i]) : "");
  }
  struct sigaction action {};
  action.sa_handler = remove_and_end;
  action.sa_flags = SA_RESETHAND;
  for (std::size_t i = 0; i < handled.size(); ++i) {
    sigaction(handled[i], nullptr, &before_->actions[i]);
    // nohup ignores signals, and so do shells for background processes: these stay ignored.
    if (before_->actions[i].sa_handler != SIG_IGN) sigaction(handled[i], &action, nullptr);
  }
}

void RemoveOnSignal::keep(const std::vector<std::filesystem::path>& paths,
                          const std::string& words) {
  expect(!paths.empty() && paths.size() <= max_paths, "a signal keeps a few files");
  for (std::size_t i = 0; i < max_paths; ++i) {
    set_path(paths_to_keep[i], i < paths.size() ? full_path(paths[i]) : "");
  }
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

void notify_of_signals(int descriptor) {
  signal_eventfd = descriptor;
}

void announce_end() {
  announce();
  poll(nullptr, 0, time_to_print);
}

bool signal_has_come() {
  return has_come;
}

void end_at_once(ExitCode code) {
  remove_all(paths_to_remove);
  if (keeps_checkpoint()) last_words.print("");
  _exit(static_cast<int>(code));
}

}  // namespace shardstream::ranks
