// Whether two runs have read the same input files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/source/origin.hpp"

namespace shardstream::report {

/// A moment for a message, to the nanosecond: "2026-11-25 15:04:05.123456789 UTC". `touch -d`
/// accepts it.
std::string moment_of(std::int64_t ns_since_1970);

/// "1024 bytes, modified at 2026-11-25 15:04:05.123456789 UTC"
std::string state_of(const io::InputFile& file);

/// The first difference between the files that two runs have read: "'/a.h5:/x' has 8 bytes,
/// modified at ..., in BEFORE, but 16 bytes, modified at ..., in AFTER". `in_before` and `in_after`
/// name the runs: "in 'p1-r1.h5'", "now". Empty if paths, data sets, sizes and times agree.
std::string difference_of(std::span<const io::InputFile> before,
                          std::span<const io::InputFile> after, std::string_view in_before,
                          std::string_view in_after);

}  // namespace shardstream::report
