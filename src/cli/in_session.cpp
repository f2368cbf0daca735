#include "cli/commands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "core/failure.hpp"
#include "io/hdf5/crash.hpp"
#include "io/hdf5/result_file.hpp"
#include "ranks/signals.hpp"
#include "watchdog/start_guard.hpp"
#include "watchdog/watchdog.hpp"

namespace shardstream::cli {
namespace {

using watchdog::StartGuard;

/// Throws UsageError with the first option in which a rank differs from rank 0. Environments and
/// INI files may differ between hosts.
void expect_same_options(const ranks::Session& session, const Options& options) {
  constexpr char end = '\0';  // cannot occur in an argument, a variable or a line of a file
  std::string mine;
  for (const auto& [key, value] : options.all())
    mine += fmt::format("{}={}{}", key, value.text, end);
  const auto all = session.gather(mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    const auto differs = std::ranges::mismatch(all[0], all[rank]).in1;
    const auto at = static_cast<std::size_t>(differs - all[0].begin());
    const auto line = at == 0 ? 0 : all[0].rfind(end, at - 1) + 1;
    const std::string key = all[0].substr(line, all[0].find('=', line) - line);
    throw UsageError(fmt::format(
        "{} differs between ranks 0 and {}: give all ranks the same command line, and pass "
        "SHARDSTREAM_* variables to all hosts (mpirun -x)",
        key, rank));
  }
}

/// comm.timeout; its default if the options have a mistake.
double timeout_of(const Options& options, bool has_mistake) {
  if (!has_mistake) return options.seconds("comm.timeout");
  const char* const no_environment = nullptr;
  return all_options().resolve({}, &no_environment, std::nullopt).seconds("comm.timeout");
}

/// Runs `body`, or throws `mistake` on every rank if any rank has one. Removes `start`, the guard
/// of the start, when the watchdog takes over.
ExitCode guarded(const ranks::Session& session, const std::optional<UsageError>& mistake,
                 const Options& options, Log& log, const Body& body,
                 std::optional<StartGuard>& start) {
  std::optional<watchdog::Watchdog> watchdog;
  try {
    if (session.rank() == 0) {
      for (const std::string& warning : options.warnings()) log.warn(warning);
    }
    session.collectively([&] {
      if (mistake) throw UsageError(*mistake);
    });
    session.collectively([&] { expect_same_options(session, options); });
    watchdog.emplace(session, options.seconds("comm.timeout"), log);
    start.reset();
    const ExitCode code = body(session, options, log);
    session.barrier();  // the watchdog runs until the last rank is done
    return code;
  } catch (const ranks::AgreedError& error) {
    if (error.prints()) log.error(error.what());
    session.barrier();
    return error.code();
  } catch (const std::exception& error) {
    if (watchdog) watchdog->stand_down();
    if (session.size() > 1) {
      // Only the lowest of the failed ranks prints its error: it ends the others during their wait.
      std::this_thread::sleep_for(std::min(session.rank(), 10) * std::chrono::milliseconds(200));
    }
    log.error(message_of(error, session.memory_remedy()));
    if (session.size() > 1) ranks::Session::abort(code_of(error));  // else the others would wait
    return code_of(error);
  }
}

}  // namespace

int in_session(const std::function<Options()>& parse, const Body& body,
               std::string_view memory_remedy) {
  Options options;
  std::optional<UsageError> mistake;
  try {
    options = parse();
  } catch (const std::exception& error) {
    if (!ranks::under_launcher() || code_of(error) != ExitCode::usage) throw;
    mistake.emplace(message_of(error));
  }
  // HDF5 must start before MPI. Otherwise, it closes all its files when MPI ends, and crashes on a
  // file that it could not write.
  (void)io::hdf5_version();
  const double timeout = timeout_of(options, mistake.has_value());
  std::optional<StartGuard> guard(std::in_place, StartGuard::Stage::start, timeout);
  const ranks::Session session(memory_remedy);
  const std::string prefix = session.size() > 1 ? fmt::format("rank {}", session.rank()) : "";
  Log log(prefix);
  io::hdf5::set_crash_end({.prefix = prefix.empty() ? "" : prefix + ": ",
                           .wait = std::chrono::seconds(session.rank() == 0 ? 0 : 1),
                           .announce = session.size() > 1 ? ranks::announce_end : nullptr,
                           .end = ranks::end_at_once});
  const ExitCode code = guarded(session, mistake, options, log, body, guard);
  guard.reset();
  guard.emplace(StartGuard::Stage::end, timeout);  // until ~Session() has ended MPI
  return static_cast<int>(code);
}

}  // namespace shardstream::cli
