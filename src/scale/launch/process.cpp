#include "scale/launch/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "core/error.hpp"
#include "core/text.hpp"
#include "scale/descendants.hpp"
#include "scale/supervisor.hpp"

namespace shardstream::scale {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto poll_interval = std::chrono::milliseconds(50);

double utc_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::optional<std::filesystem::path> find_program(const std::string& program) {
  const auto usable = [](const std::filesystem::path& path) {
    return access(path.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(path);
  };
  if (program.find('/') != std::string::npos) {
    return usable(program) ? std::optional(std::filesystem::path(program)) : std::nullopt;
  }
  const char* const path = std::getenv("PATH");
  for (const auto folder : split(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    auto candidate = std::filesystem::path(folder.empty() ? "." : folder) / program;
    if (usable(candidate)) return candidate;
  }
  return std::nullopt;
}

Ended run(const Command& command, Interrupts::Deferral& signals) {
  const auto program = find_program(command.words.at(0));
  if (!program) throw Error(fmt::format("there is no program '{}'", command.words[0]));
  const Descriptor log(command.log, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (!log.valid()) {
    throw Error(fmt::format("cannot write '{}': {}", command.log.string(), errno_text(errno)));
  }
  adopt_orphans();
  Ended ended{.timeout = command.timeout, .utc_start = utc_now()};
  const auto start = Clock::now();
  Supervisor supervisor({*program, command.words, command.environment}, log);
  std::optional<Clock::time_point> ending;
  while (!supervisor.is_over()) {
    const auto now = Clock::now();
    const bool stops = signals.request() == StopRequest::now;
    if (!supervisor.code() && !ending) {
      ended.timed_out = now - start > std::chrono::duration<double>(command.timeout);
      ended.interrupted = stops;
      if (ended.timed_out || ended.interrupted) {
        supervisor.end();
        ending = now;
      }
    }
    if (stops && ending && now - *ending > 2 * grace) {
      throw Error(
          fmt::format("'{}' still runs after SIGKILL: its storage may not answer; check "
                      "the storage and the processes of this host",
                      command.words[0]));
    }
    if (!signals.wait(supervisor.descriptor(), poll_interval)) continue;
    const bool was_running = !supervisor.code();
    supervisor.receive();
    if (!was_running || !supervisor.code()) continue;
    ended.code = *supervisor.code();
    ended.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    ended.utc_end = utc_now();
    if (!ending) ending = Clock::now();  // the supervisor ends the processes that are left
  }
  ended.killed = supervisor.has_killed();
  return ended;
}

}  // namespace shardstream::scale
