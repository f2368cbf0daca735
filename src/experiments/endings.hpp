// The ways in which an experiment ends, and the agreement of all ranks on one of them.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "ranks/session.hpp"

namespace shardstream::experiments {

/// How an experiment ends. If ranks differ, the last one in this order counts.
enum class State { measured, not_available, rejected, failed, wrong, not_run };
std::string_view word_of(State state);

/// How an experiment has ended on one rank.
struct Ending {
  State state = State::measured;
  std::string message = {};
};

/// Calls `step` and returns how it has ended. Throws nothing. `memory_remedy`: see
/// core/failure.hpp.
Ending ending_of(const std::function<void()>& step, std::string_view memory_remedy);

/// The message of the first rank that has one, with the number of that rank. Collective.
std::string first_message(const ranks::Session& session, const std::string& mine);

/// An end that all ranks have agreed on, so that each of them throws it.
class AgreedEnd : public Error {
 public:
  /// `ending` has the worst state of all ranks; its message is empty on ranks whose own end was
  /// better.
  explicit AgreedEnd(Ending ending) : Error(ending.message), ending_(std::move(ending)) {}
  const Ending& ending() const { return ending_; }

 private:
  Ending ending_;
};

/// Calls `step`, which makes no collective call, on every rank. If it throws on any rank, all ranks
/// throw AgreedEnd. Collective.
void agree(const ranks::Session& session, const std::function<void()>& step);

/// Calls `step`, which communicates, and returns the end that all ranks have agreed on. Passes on
/// an exception that only this rank knows of: the other ranks may wait for this one, so that the
/// program has to end.
Ending agreed_ending_of(const std::function<void()>& step);

}  // namespace shardstream::experiments
