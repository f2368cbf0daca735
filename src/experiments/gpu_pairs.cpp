#include "experiments/gpu_pairs.hpp"

#include <algorithm>

#include "core/table.hpp"
#include "experiments/context.hpp"

namespace shardstream::experiments {
namespace {

/// Whether the pair of `a` and `b` can be measured by the rank that sees `gpus`.
bool can_measure(const SeenGpus& gpus, const std::string& a, const std::string& b) {
  const auto sees = [&](const std::string& address) {
    return std::ranges::find(gpus.addresses, address) != gpus.addresses.end();
  };
  const std::string& own = gpus.addresses[gpus.own];
  return (own == a && sees(b)) || (own == b && sees(a));
}

}  // namespace

std::vector<int> partners_of(std::span<const SeenGpus> ranks, std::size_t rank) {
  const SeenGpus& mine = ranks[rank];
  const std::string& own = mine.addresses[mine.own];
  std::vector<int> partners;
  for (std::size_t other = 0; other < mine.addresses.size(); ++other) {
    if (other == mine.own) continue;
    const bool is_taken = std::ranges::any_of(ranks.first(rank), [&](const SeenGpus& lower) {
      return lower.host == mine.host && can_measure(lower, own, mine.addresses[other]);
    });
    if (!is_taken) partners.push_back(static_cast<int>(other));
  }
  return partners;
}

std::vector<int> own_partners(const ranks::Session& session) {
  Table mine(
      "gpus",
      {{"host", ColumnType::text}, {"address", ColumnType::text}, {"is_own", ColumnType::integer}});
  session.collectively([&] {
    int ordinal = 0;
    for (const std::string& address : visible_addresses()) {
      mine.add({session.host(), address, std::int64_t{ordinal++ == current_gpu()}});
    }
  });
  std::vector<SeenGpus> ranks(static_cast<std::size_t>(session.size()));
  const Table all = ranks::gather(session, mine);
  for (const Row& gpu : all.rows()) {
    SeenGpus& seen = ranks[static_cast<std::size_t>(gpu.get<std::int64_t>("rank"))];
    seen.host = gpu.get<std::string>("host");
    if (gpu.get<std::int64_t>("is_own") != 0) seen.own = seen.addresses.size();
    seen.addresses.push_back(gpu.get<std::string>("address"));
  }
  return partners_of(ranks, static_cast<std::size_t>(session.rank()));
}

}  // namespace shardstream::experiments
