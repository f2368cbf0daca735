#include "experiments/endings.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <exception>

#include "core/failure.hpp"
#include "experiments/bench.hpp"

namespace shardstream::experiments {
namespace {

State state_of(ExitCode code) {
  if (code == ExitCode::usage) return State::rejected;
  return code == ExitCode::unverified ? State::wrong : State::failed;
}

}  // namespace

std::string_view word_of(State state) {
  constexpr std::array<std::string_view, 6> words = {"measured", "not available", "rejected",
                                                     "failed",   "wrong",         "not run"};
  return words[static_cast<std::size_t>(state)];
}

Ending ending_of(const std::function<void()>& step, std::string_view memory_remedy) {
  try {
    step();
  } catch (const NotAvailable& error) {
    return {State::not_available, error.what()};
  } catch (const Error& error) {
    return {state_of(error.code()), error.what()};
  } catch (const std::exception& error) {
    return {State::failed, message_of(error, memory_remedy)};
  }
  return {};
}

std::string first_message(const ranks::Session& session, const std::string& mine) {
  const auto all = session.gather(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    return all.size() > 1 ? fmt::format("rank {}: {}", rank, all[rank]) : all[rank];
  }
  return {};
}

void agree(const ranks::Session& session, const std::function<void()>& step) {
  const Ending mine = ending_of(step, session.memory_remedy());
  const auto worst = static_cast<State>(session.max(static_cast<double>(mine.state)));
  if (worst == State::measured) return;
  throw AgreedEnd({worst, mine.state == worst ? mine.message : std::string()});
}

Ending agreed_ending_of(const std::function<void()>& step) {
  try {
    step();
  } catch (const AgreedEnd& error) {
    return error.ending();
  } catch (const ranks::AgreedError& error) {
    return {state_of(error.code()), error.prints() ? error.what() : ""};
  }
  return {};
}

}  // namespace shardstream::experiments
