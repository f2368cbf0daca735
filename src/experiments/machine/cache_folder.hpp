// A private folder for the cache of the compilers of CUDA, so that an experiment neither uses nor
// changes the user's cache.
#pragma once

#include <filesystem>
#include <string>

#include "experiments/helper_processes.hpp"
#include "ranks/heartbeat.hpp"

namespace shardstream::experiments::machine {

/// A new folder among the temporary files of the system, only for this user. A process of /bin/sh
/// removes it with its contents when this object or its process ends, by a signal, too.
class CacheFolder {
 public:
  /// Throws Error if the folder or the process cannot be made.
  explicit CacheFolder(ranks::Heartbeat& heartbeat);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Helpers remover_;
};

}  // namespace shardstream::experiments::machine
