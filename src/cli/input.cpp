#include "cli/input.hpp"

#include <fmt/format.h>

#include <string>

namespace shardstream::cli {
namespace {

/// Hosts may see different files under one name.
void expect_same_input(const launch::Session& session, const io::Source& source) {
  const auto& order = source.order();
  std::string mine = fmt::format("{}, {} elements", name_of(source.type()), order.count());
  for (const auto* extents : {&order.shape(), &order.box()}) {
    for (const auto extent : *extents) mine += fmt::format(" {}", extent);
  }
  const auto all = session.gather(mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw UsageError(
        fmt::format("{} is not the same data on ranks 0 and {} ({} and {}): use a file "
                    "that all hosts share",
                    source.name(), rank, all[0], all[rank]));
  }
}

}  // namespace

std::unique_ptr<io::Source> open_input(const launch::Session& session, const Options& options) {
  std::unique_ptr<io::Source> source;
  session.collectively([&] { source = io::open_source(options); });
  session.collectively([&] { expect_same_input(session, *source); });
  return source;
}

}  // namespace shardstream::cli
