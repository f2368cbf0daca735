// Reads whole small text files and lists folders. Errors are UsageErrors with a remedy. The user
// may have named anything, so the size is limited, and only regular files are read: a FIFO would
// block, and a device may have no end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/descriptor.hpp"

namespace shardstream {

/// The reason why `file`, which was opened with O_NONBLOCK, is not a regular file of at most
/// `max_bytes`: "it is a FIFO, not a regular file". Empty if it is one.
std::string why_not_small(const Descriptor& file, std::uint64_t max_bytes);

/// The contents; nothing if there is no such file. Throws UsageError with the path if it is no
/// regular file, has more than `max_bytes` bytes, or cannot be read.
std::optional<std::string> read_small_file(const std::filesystem::path& path,
                                           std::uint64_t max_bytes);

/// The names in a folder in alphabetical order. Throws UsageError with the path if it cannot be
/// read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

/// " (did you mean '…'?)" with the path beside `path`, which does not exist, whose name is most
/// similar; empty if none is.
std::string similar_path(const std::filesystem::path& path);

}  // namespace shardstream
