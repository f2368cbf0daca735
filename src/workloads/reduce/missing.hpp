// The search for the first value that is missing or NaN, for computations that only count them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/shard.hpp"
#include "io/source/source.hpp"
#include "ranks/session.hpp"
#include "workloads/reduce/report.hpp"
#include "workloads/stream/computation.hpp"

namespace shardstream::workloads {

/// The first element of a range for which is_invalid(element, value) holds, or end() of the range.
/// Reads the source.
template <class T, class IsInvalid>
std::uint64_t first_invalid(const io::Source& source, Range elements, const IsInvalid& is_invalid) {
  constexpr std::uint64_t most = std::uint64_t{1} << 16;
  std::vector<T> values(std::min(most, elements.count));
  for (std::uint64_t first = elements.first; first < elements.end(); first += most) {
    const std::uint64_t count = std::min(most, elements.end() - first);
    source.read(first, count, reinterpret_cast<std::byte*>(values.data()));
    for (std::uint64_t i = 0; i < count; ++i) {
      if (is_invalid(first + i, values[i])) return first + i;
    }
  }
  return elements.end();
}

/// Throws AgreedError if `missing`, the number of such values of all ranks, is not 0. The error
/// names the first of them, so the ranks read their shards once more. Collective.
template <class T, class IsInvalid>
void reject_missing(const stream::ShardContext& context, const io::Source& source,
                    std::uint64_t missing, const IsInvalid& is_invalid) {
  if (missing == 0) return;
  const ranks::Session& session = context.runtime.session;
  std::uint64_t mine = source.count();
  session.collectively([&] {
    const std::uint64_t first = first_invalid<T>(source, context.shard, is_invalid);
    if (first < context.shard.end()) mine = first;
  });
  const std::vector<std::uint64_t> firsts = session.gather(std::vector{mine});
  const auto first = static_cast<std::int64_t>(*std::ranges::min_element(firsts));
  session.collectively([&] { reject(source, missing, first); });
}

}  // namespace shardstream::workloads
