// A search among the elements of all ranks, on their hosts. Kernels only count values.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/parallel.hpp"
#include "core/shard.hpp"
#include "io/source/source.hpp"
#include "ranks/session.hpp"
#include "workloads/reduce/reduce_report.hpp"
#include "workloads/stream/computation.hpp"

namespace shardstream::workloads {

/// Calls use(element, value) for elements of a range, in order, until it returns false. Reads the
/// source.
template <class T, class Use>
void for_elements(const io::Source& source, Range elements, const Use& use) {
  constexpr std::uint64_t most = std::uint64_t{1} << 16;
  std::vector<T> values(std::min(most, elements.count));
  for (std::uint64_t first = elements.first; first < elements.end(); first += most) {
    const std::uint64_t count = std::min(most, elements.end() - first);
    source.read(first, count, reinterpret_cast<std::byte*>(values.data()));
    for (std::uint64_t i = 0; i < count; ++i) {
      if (!use(first + i, values[i])) return;
    }
  }
}

/// Elements that were searched for.
struct Found {
  std::uint64_t count = 0;
  std::int64_t first = cells::no_index;
};

/// The elements of all ranks for which is_wanted(element, value) holds. Each rank reads its shard,
/// with all its threads. Collective.
template <class T, class IsWanted>
Found find_elements(const stream::ShardContext& context, const io::Source& source,
                    const IsWanted& is_wanted) {
  const ranks::Session& session = context.runtime.session;
  const Range shard = context.shard;
  std::atomic<std::uint64_t> count{0}, first{source.count()};
  session.collectively([&] {
    constexpr std::uint64_t piece = std::uint64_t{1} << 20;
    parallel_for(ceil_div(shard.count, piece), context.runtime.resources.threads,
                 [&](std::uint64_t i) {
                   std::uint64_t own = 0, own_first = source.count();
                   const Range elements = intersection(shard, {shard.first + i * piece, piece});
                   for_elements<T>(source, elements, [&](std::uint64_t element, T value) {
                     if (!is_wanted(element, value)) return true;
                     if (own++ == 0) own_first = element;
                     return true;
                   });
                   count += own;
                   for (std::uint64_t known = first; own_first < known;) {
                     if (first.compare_exchange_weak(known, own_first)) break;
                   }
                 });
  });
  const std::vector<std::uint64_t> firsts = session.gather(std::vector{first.load()});
  const std::uint64_t found = *std::ranges::min_element(firsts);
  return {session.sum(count.load()),
          found < source.count() ? static_cast<std::int64_t>(found) : cells::no_index};
}

/// Throws AgreedError if `missing`, the number of such values of all ranks, is not 0. The error
/// names the first of them, so the ranks read their shards once more. Collective.
template <class T, class IsInvalid>
void reject_missing(const stream::ShardContext& context, const io::Source& source,
                    std::uint64_t missing, const IsInvalid& is_invalid) {
  if (missing == 0) return;
  const std::int64_t first = find_elements<T>(context, source, is_invalid).first;
  context.runtime.session.collectively([&] { reject(source, missing, first); });
}

}  // namespace shardstream::workloads
