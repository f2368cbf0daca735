#include "experiments/machine/cache_folder.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::experiments::machine {
namespace {

std::filesystem::path new_folder() {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  const std::string unique(6, 'X');  // that mkdtemp() replaces
  std::string path = ((error ? "/tmp" : parent) / ("shardstream-cache-" + unique)).string();
  if (mkdtemp(path.data()) == nullptr) {
    throw Error(
        fmt::format("cannot make the folder {} ({}): set TMPDIR to a folder in which you "
                    "can write",
                    excerpt(path), errno_text(errno)));
  }
  return path;
}

/// Waits for the end of its input, and removes the folder. Signals of the terminal do not end it.
HelperProgram remover_of(const std::filesystem::path& folder) {
  return {
      .path = "/bin/sh",
      .words = {"sh", "-c", "trap '' HUP INT TERM; read line; rm -rf -- \"$0\"", folder.string()},
      .environment = {"PATH=/usr/bin:/bin"}};
}

}  // namespace

CacheFolder::CacheFolder(ranks::Heartbeat& heartbeat)
    : path_(new_folder()), remover_(remover_of(path_), 1, heartbeat) {}

}  // namespace shardstream::experiments::machine
