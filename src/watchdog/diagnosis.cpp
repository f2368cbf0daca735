#include "watchdog/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"

namespace shardstream::watchdog {
namespace {

constexpr double intervals_to_be_silent = 5;
constexpr std::size_t max_named = 4;

std::string name_of(const RankState& rank) {
  return fmt::format("rank {} ({}, pid {})", rank.rank, rank.host, rank.pid);
}

std::string place_of(const ranks::Pulse& pulse) {
  return fmt::format("phase {}{}{}", pulse.phase, pulse.step.empty() ? "" : ", ", pulse.step);
}

std::string name_all(const std::vector<RankState>& culprits, bool silent) {
  const auto name_one = [&](const RankState& rank) {
    std::string text =
        fmt::format("{} {} in {}", name_of(rank), rank.pulse.waiting && !silent ? "waits" : "hangs",
                    place_of(rank.pulse));
    if (silent) {
      text += fmt::format(
          " (not heard from for {:.0f} s: its process does not run, or its host cannot be reached)",
          rank.silent);
    }
    return text;
  };
  const std::string text = join_first(culprits, max_named, " and ", name_one);
  return culprits.size() > max_named ? text + " likewise" : text;
}

/// "; the others wait in combine", without the phase if it differs, and empty unless all others
/// wait.
std::string describe_others(const std::vector<RankState>& others) {
  const auto waits = [](const RankState& rank) { return rank.pulse.waiting; };
  if (others.empty() || !std::ranges::all_of(others, waits)) return "";
  const std::string& phase = others[0].pulse.phase;
  const bool together =
      std::ranges::all_of(others, [&](const RankState& rank) { return rank.pulse.phase == phase; });
  return fmt::format("; {}{}{}",
                     others.size() == 1 ? fmt::format("rank {} waits", others[0].rank)
                                        : std::string("the others wait"),
                     together ? " in " : "", together ? phase : "");
}

/// Ranks of several hosts wait for one another if the network that NCCL has chosen is blocked.
std::string remedy_if_all_wait(std::span<const RankState> ranks) {
  const bool one_host = std::ranges::all_of(
      ranks, [&](const RankState& rank) { return rank.host == ranks.front().host; });
  return one_host ? ""
                  : "; if the network between the hosts is blocked, NCCL_SOCKET_IFNAME names "
                    "another one";
}

}  // namespace

std::optional<Diagnosis> diagnose_hang(std::span<const RankState> ranks, double timeout,
                                       double interval) {
  const auto moves = [&](const RankState& rank) { return rank.still < timeout; };
  if (ranks.empty() || std::ranges::any_of(ranks, moves)) return std::nullopt;
  const auto is_silent = [&](const RankState& rank) {
    return rank.silent >= intervals_to_be_silent * interval;
  };
  const bool silent = std::ranges::any_of(ranks, is_silent);
  std::vector<RankState> culprits, others;
  for (const RankState& rank : ranks) {
    const bool at_fault = silent ? is_silent(rank) : !rank.pulse.waiting;
    (at_fault ? culprits : others).push_back(rank);
  }
  const bool all_wait = culprits.empty();
  if (all_wait) culprits.swap(others);
  Diagnosis diagnosis{fmt::format("nothing has moved for {:g} s (comm.timeout): {}{}{}", timeout,
                                  name_all(culprits, silent), describe_others(others),
                                  all_wait ? remedy_if_all_wait(ranks) : ""),
                      {}};
  for (const RankState& rank : culprits) {
    if (silent) diagnosis.silent.push_back(rank.rank);
  }
  return diagnosis;
}

std::string lost_rank_message(const RankState& rank) {
  return fmt::format("{} has ended in {} (it was killed, or it crashed): see the system log of {}",
                     name_of(rank), place_of(rank.pulse), rank.host);
}

}  // namespace shardstream::watchdog
