#include "launch/signals.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstring>
#include <string>

namespace shardstream::launch {
namespace {

constexpr std::array handled = {SIGTERM, SIGINT, SIGHUP};

// A signal handler can reach static memory only.
std::array<std::array<char, PATH_MAX>, 2> paths_to_remove{};
std::array<struct sigaction, handled.size()> before{};

constexpr int moment = 300;  // ms, for another rank's unlink() on a busy machine

void remove_and_end(int signal) {
  bool removes = false;
  for (const auto& path : paths_to_remove) {
    if (path[0] == '\0') continue;
    unlink(path.data());
    removes = true;
  }
  if (!removes) poll(nullptr, 0, moment);  // the sleep that a signal handler may call
  // SA_RESETHAND has restored the default action, which ends the process.
  raise(signal);
}

void keep(const std::filesystem::path& path, std::array<char, PATH_MAX>& to) {
  std::string text = path.empty() ? "" : std::filesystem::absolute(path).string();
  if (text.size() >= to.size()) text.clear();  // no file can have that name
  std::memcpy(to.data(), text.c_str(), text.size() + 1);
}

}  // namespace

RemoveOnSignal::RemoveOnSignal(const std::filesystem::path& path,
                               const std::filesystem::path& another) {
  keep(path, paths_to_remove[0]);
  keep(another, paths_to_remove[1]);
  struct sigaction action {};
  action.sa_handler = remove_and_end;
  action.sa_flags = SA_RESETHAND;
  for (std::size_t i = 0; i < handled.size(); ++i) {
    sigaction(handled[i], nullptr, &before[i]);
    // nohup, and shells for what they start in the background, have signals ignored: so they stay.
    if (before[i].sa_handler != SIG_IGN) sigaction(handled[i], &action, nullptr);
  }
}

RemoveOnSignal::~RemoveOnSignal() {
  for (std::size_t i = 0; i < handled.size(); ++i) sigaction(handled[i], &before[i], nullptr);
}

}  // namespace shardstream::launch
