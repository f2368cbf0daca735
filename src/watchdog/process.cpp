#include "watchdog/process.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <exception>
#include <fstream>
#include <future>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/text.hpp"

namespace shardstream::watchdog {

std::string process_identity(long pid) {
  std::array<char, 64> space{};
  const auto length =
      ::readlink(fmt::format("/proc/{}/ns/pid", pid).c_str(), space.data(), space.size() - 1);
  std::string stat;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), stat);
  // The name in parentheses may contain anything. The 20th field after it is the start time.
  const auto fields = split(std::string_view(stat).substr(stat.rfind(')') + 1), ' ');
  if (length <= 0 || fields.size() < 21) return "";
  return fmt::format("{} {}", space.data(), fields[20]);
}

void try_for(double seconds, std::function<void()> work) {
  const auto attempt = [work = std::move(work)] {
    try {
      work();
    } catch (const std::exception&) {  // see the header
    }
  };
  std::promise<void> promise;
  const std::future<void> done = promise.get_future();
  try {
    std::thread([promise = std::move(promise), attempt]() mutable {
      attempt();
      promise.set_value();
    }).detach();
  } catch (const std::system_error&) {
    return attempt();
  }
  done.wait_for(std::chrono::duration<double>(seconds));
}

}  // namespace shardstream::watchdog
