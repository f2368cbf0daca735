// Whether a file's bytes are in the system's page cache, so that reading them needs no storage.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/descriptor.hpp"
#include "core/shard.hpp"

namespace shardstream::io {

/// Share (0 to 1) of the bytes [first, first + count) of `file` that are cached, from one random
/// page in each of up to `samples` equal stretches; nothing where the system does not tell, and for
/// no bytes. What the first of the two ways below cannot say, the second does.
std::optional<double> cached_share(const Descriptor& file, Range bytes,
                                   std::uint64_t samples = 512);

/// By mincore(). Leaves the cache as it is; says nothing of a file that this process neither owns
/// nor may write to.
std::optional<double> cached_share_by_mapping(const Descriptor& file, Range bytes,
                                              std::uint64_t samples);
/// By reads that must not wait. A page that is not there may be brought in by that.
std::optional<double> cached_share_by_reading(const Descriptor& file, Range bytes,
                                              std::uint64_t samples);

/// "warm" from 95 %, "cold" up to 5 %, "partly" between them, "unknown" for nothing.
std::string_view page_cache_state(std::optional<double> share);

}  // namespace shardstream::io
