// Puts input files into a known state before a measurement.
#pragma once

#include <filesystem>
#include <vector>

namespace shardstream::io {

/// Reads the files completely, so that the page cache contains as much of them as fits. With
/// `cold`, asks the system to drop their pages instead. Throws Error if a file cannot be read.
void prepare_cache(const std::vector<std::filesystem::path>& files, bool cold);

}  // namespace shardstream::io
