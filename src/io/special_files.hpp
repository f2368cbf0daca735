// Files that are neither regular files nor folders.
#pragma once

#include <filesystem>
#include <string_view>

namespace shardstream::io {

/// "a FIFO", "a socket", "a character device" or "a block device", if `path` leads to one; empty
/// for anything else, also if nothing is there.
inline std::string_view special_kind(const std::filesystem::path& path) {
  std::error_code not_there;
  switch (std::filesystem::status(path, not_there).type()) {
    case std::filesystem::file_type::character:
      return "a character device";
    case std::filesystem::file_type::block:
      return "a block device";
    case std::filesystem::file_type::fifo:
      return "a FIFO";
    case std::filesystem::file_type::socket:
      return "a socket";
    default:
      return {};
  }
}

}  // namespace shardstream::io
