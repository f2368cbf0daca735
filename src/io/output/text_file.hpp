// Outputs that are written at once: pages, figures and tables.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "io/output/replacement.hpp"

namespace shardstream::io {

/// Writes `text` as a PartFile and publishes it, so an error never leaves an incomplete file.
/// `text` begins with the mark of its Contents (contents.hpp). Throws UsageError if the destination
/// cannot be taken or its disk is full, and Error if the file cannot be written.
void write_text(const Destination& destination, std::string_view text);

/// Creates the folder `path` and the folders above it, unless they exist. Throws UsageError, which
/// names `option`, if `path` is something else or cannot be created.
void make_folder(const std::filesystem::path& path, const std::string& option);

}  // namespace shardstream::io
