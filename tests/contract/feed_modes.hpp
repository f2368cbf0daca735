// The modes of a feed, and the unit of elements in its tests.
#pragma once

#include <array>
#include <cstdint>

#include "pipeline/feed.hpp"

namespace shardstream::pipeline {

inline constexpr std::uint64_t unit = 64;
inline constexpr std::array every_mode = {Mode::stream,         Mode::pageable, Mode::pinned,
                                          Mode::write_combined, Mode::mapped,   Mode::resident};

}  // namespace shardstream::pipeline
