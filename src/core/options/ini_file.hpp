// Reads INI files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/options/row.hpp"

namespace shardstream::options {

/// The contents of an INI file. Throws UsageError if it cannot be read or is too large. At most the
/// maximum size and one byte are read, so a device without an end is an error, too.
std::string read_ini_text(const std::filesystem::path& file);

/// One assignment of an INI file.
struct IniLine {
  std::string key;  ///< "section.name"
  std::string value;
  std::size_t number = 0;  ///< of the line, from 1
};

/// Calls `use` with every assignment of `text`, in order. Comments, quotes that enclose a value, a
/// byte-order mark and line ends of Windows are removed. Throws UsageError with `file` and the
/// number of the line if it is not an assignment, or if a key is given twice.
void for_each_ini_line(std::string_view text, const std::string& file,
                       const std::function<void(const IniLine&)>& use);

/// `value` as an INI file must have it, so that for_each_ini_line() gives it back: with quotes if
/// the reader would otherwise change it. Control characters, and the quote " in a value that needs
/// quotes and has both kinds, become \xNN, since no INI file can have them.
std::string ini_value(std::string_view value);
/// The value that for_each_ini_line() gives for ini_value(value).
std::string stored_ini_value(std::string_view value);

/// Adds every value of the file. Throws UsageError, with the line, if the file cannot be read or
/// has an unknown key. The values themselves are not checked.
void read_ini(const std::vector<OptionRow>& rows, const std::filesystem::path& file,
              Values& values);

}  // namespace shardstream::options
