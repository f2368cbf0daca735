// Puts the input files of a study into a known state before each launch.
#pragma once

#include <filesystem>
#include <vector>

namespace shardstream::scale {

/// Reads the files in full, so that the page cache holds what it has room for; or, if `cold`, asks
/// the system to drop their pages. Throws Error if a file cannot be read.
void prepare_cache(const std::vector<std::filesystem::path>& files, bool cold);

}  // namespace shardstream::scale
