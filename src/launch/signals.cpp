#include "launch/signals.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstring>

#include "core/error.hpp"

namespace shardstream::launch {
namespace {

constexpr std::array handled = {SIGTERM, SIGINT, SIGHUP};

// A signal handler can reach static memory only.
std::array<char, PATH_MAX> path_to_remove{};

void remove_and_end(int signal) {
  unlink(path_to_remove.data());
  // SA_RESETHAND has restored the default action, which ends the process.
  raise(signal);
}

}  // namespace

RemoveOnSignal::RemoveOnSignal(const std::filesystem::path& path) {
  const std::string text = std::filesystem::absolute(path).string();
  expect(text.size() < path_to_remove.size(), "a path of a file that exists is short enough");
  std::memcpy(path_to_remove.data(), text.c_str(), text.size() + 1);
  struct sigaction action {};
  action.sa_handler = remove_and_end;
  action.sa_flags = SA_RESETHAND;
  for (const int signal : handled) sigaction(signal, &action, nullptr);
}

RemoveOnSignal::~RemoveOnSignal() {
  for (const int number : handled) signal(number, SIG_DFL);
}

}  // namespace shardstream::launch
