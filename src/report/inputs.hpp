// Whether two runs have read the same input files.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "io/description/origin.hpp"

namespace shardstream::report {

/// The first difference between the files that two runs have read: "'/a.h5:/x' has 8 bytes,
/// modified at ..., in BEFORE, but 16 bytes, modified at ..., in AFTER". `in_before` and `in_after`
/// name the runs: "in 'p1-r1.h5'", "now". Empty if paths, data sets, sizes and times agree.
std::string difference_of(std::span<const io::InputFile> before,
                          std::span<const io::InputFile> after, std::string_view in_before,
                          std::string_view in_after);

}  // namespace shardstream::report
