// Reads options from an INI file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/options/row.hpp"

namespace shardstream::options {

/// The contents of an INI file. Throws UsageError if it cannot be read or is too large. At most the
/// maximum size and one byte are read, so a device without an end is an error, too.
std::string read_ini_text(const std::filesystem::path& file);

/// Adds every value of the file. Throws UsageError, with the line, if the file cannot be read or
/// has an unknown key. The values themselves are not checked.
void read_ini(const std::vector<OptionRow>& rows, const std::filesystem::path& file,
              Values& values);

}  // namespace shardstream::options
