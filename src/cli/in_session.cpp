#include "cli/in_session.hpp"

#include <fmt/format.h>

#include <optional>

namespace shardstream::cli {
namespace {

ExitCode code_of(const std::exception& error) {
  const auto* own = dynamic_cast<const Error*>(&error);
  return own != nullptr ? own->code() : ExitCode::failed;
}

/// Runs `body`, or throws `mistake` on every rank if any rank has one.
ExitCode guarded(const launch::Session& session, const std::optional<UsageError>& mistake,
                 const Options& options, Log& log, const Body& body) {
  try {
    session.collectively([&] {
      if (mistake) throw UsageError(*mistake);
    });
    return body(session, options, log);
  } catch (const launch::AgreedError& error) {
    if (error.speaks()) log.error(error.what());
    return error.code();
  } catch (const std::exception& error) {
    log.error(error.what());
    if (session.size() > 1) launch::Session::abort(code_of(error));  // the others would wait
    return code_of(error);
  }
}

}  // namespace

int in_session(const std::function<Options()>& parse, const Body& body) {
  Options options;
  std::optional<UsageError> mistake;
  try {
    options = parse();
  } catch (const UsageError& error) {
    if (!launch::under_launcher()) throw;
    mistake.emplace(error);
  }
  const launch::Session session;
  Log log(session.size() > 1 ? fmt::format("rank {}", session.rank()) : "");
  return static_cast<int>(guarded(session, mistake, options, log, body));
}

}  // namespace shardstream::cli
