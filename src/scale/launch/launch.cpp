#include "scale/launch/launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <chrono>

#include "core/error.hpp"
#include "process/child.hpp"
#include "process/descendants.hpp"

namespace shardstream::scale {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto poll_interval = std::chrono::milliseconds(50);

double utc_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Descriptor open_log(const std::filesystem::path& path) {
  Descriptor log(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (log.valid()) return log;
  throw Error(fmt::format("cannot write '{}': {}", path.string(), errno_text(errno)));
}

}  // namespace

LaunchEnd execute(const LaunchCommand& command, Interrupts::Deferral& signals) {
  const auto program = process::find_program(command.words.at(0));
  if (!program) throw Error(fmt::format("there is no program '{}'", command.words[0]));
  const Descriptor log = open_log(command.log);
  const bool is_apart = command.output != command.log;
  const Descriptor output = is_apart ? open_log(command.output) : Descriptor();
  LaunchEnd ended{.timeout = command.timeout, .utc_start = utc_now()};
  const auto start = Clock::now();
  process::Child child({*program, command.words, command.environment, "check --scale.launcher"},
                       {.out = is_apart ? output.get() : log.get(), .err = log.get()});
  std::optional<Clock::time_point> ending;
  while (!child.is_over()) {
    const auto now = Clock::now();
    const bool stops = signals.request() == StopRequest::now;
    if (!child.code() && !ending) {
      ended.timed_out = now - start > std::chrono::duration<double>(command.timeout);
      ended.interrupted = stops;
      if (ended.timed_out || ended.interrupted) {
        child.end();
        ending = now;
      }
    }
    if (stops && ending && now - *ending > 2 * process::grace) {
      throw Error(
          fmt::format("'{}' still runs after SIGKILL: its storage may not answer; check "
                      "the storage and the processes of this host",
                      command.words[0]));
    }
    if (!signals.wait(child.descriptor(), poll_interval)) continue;
    const bool was_running = !child.code();
    child.receive();
    if (!was_running || !child.code()) continue;
    ended.code = *child.code();
    ended.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    ended.utc_end = utc_now();
    if (!ending) ending = Clock::now();  // the supervisor ends the processes that are left
  }
  ended.killed = child.has_killed();
  return ended;
}

}  // namespace shardstream::scale
