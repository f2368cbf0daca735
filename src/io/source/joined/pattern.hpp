// Several files by one name with wildcards, as in a shell: "sst_*.nc".
#pragma once

#include <string>
#include <vector>

namespace shardstream::io {

/// Whether `file` stands for all files that match it: it contains `*`, `?` or `[`, and no file has
/// exactly this name.
bool is_pattern(const std::string& file);

/// The files that match a pattern as in glob(3), in the order of the bytes of their names. Folders
/// do not count. Throws UsageError if there is none, or if a folder cannot be read.
std::vector<std::string> matching_files(const std::string& pattern);

}  // namespace shardstream::io
