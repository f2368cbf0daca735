// Puts the input files of a study into a known state before each launch.
#pragma once

#include <filesystem>
#include <vector>

namespace shardstream::scale {

/// Reads the files completely, so that the page cache contains as much of them as fits. With
/// `cold`, asks the system to drop their pages instead. Throws Error if a file cannot be read.
void prepare_cache(const std::vector<std::filesystem::path>& files, bool cold);

}  // namespace shardstream::scale
