#include "workloads/stream/description.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/text.hpp"

namespace shardstream::workloads::stream {
namespace {

/// How the ranks read the source. If they read in several ways, each has its number of ranks.
/// Collective.
std::string access_of_all(const ranks::Session& session, const io::Source& source) {
  std::map<std::string, int> ranks;
  for (const std::string& access : session.gather(source.access())) ++ranks[access];
  if (ranks.size() == 1) return source.access();
  return join(ranks, "; ", [&](const auto& access) {
    return fmt::format("{} ({} of {} ranks)", access.first, access.second, session.size());
  });
}

}  // namespace

void describe(const measure::PageCache& cache, Outcome& outcome) {
  if (cache.state.empty()) return;
  outcome.input.push_back({"/input", "page_cache", cache.state});
  if (cache.share) outcome.input.push_back({"/input", "page_cache_share", *cache.share});
  outcome.metrics.push_back({"page_cache", cache.state});
}

void describe(const ranks::Session& session, const io::Source& source, const pipeline::Sizes& sizes,
              Outcome& outcome) {
  const auto as_integers = [](const std::vector<std::uint64_t>& extents) {
    return std::vector<std::int64_t>(extents.begin(), extents.end());
  };
  const std::string type(name_of(source.type()));
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, io::AttributeValue>>{
           {"name", source.name()},
           {"type", type},
           {"shape", as_integers(source.order().shape())},
           {"box", as_integers(source.order().box())},
           {"access", access_of_all(session, source)},
           {"stored_bytes", static_cast<std::int64_t>(source.stored_bytes())}}) {
    outcome.input.push_back({"/input", name, value});
  }
  outcome.resolved.emplace_back("input.type", type);
  outcome.resolved.emplace_back("input.rows",
                                static_cast<std::int64_t>(source.order().shape().front()));
  const auto stored = source.stored({0, 1});
  outcome.resolved.emplace_back("input.read", stored && stored->past_cache ? "direct" : "cached");
  for (const auto& [key, value] : pipeline::resolved(sizes, size_of(source.type()))) {
    outcome.resolved.emplace_back(key, static_cast<std::int64_t>(value));
  }
}

}  // namespace shardstream::workloads::stream
