// The file of a run of experiments, which is written again after each one. For one rank.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "io/hdf5/result_file.hpp"
#include "io/output/part_file.hpp"

namespace shardstream::experiments {

class BenchFile {
 public:
  BenchFile(std::filesystem::path path, io::Overwrite overwrite)
      : path_(std::move(path)), overwrite_(overwrite) {}

  const std::filesystem::path& path() const { return path_; }

  /// Throws UsageError if there can be no file of that name, as far as that can be seen now.
  void expect_place() const;

  /// Replaces what this run has written before by what `store` writes. Throws Error if another
  /// process has replaced it, unless output.overwrite allows to replace that one.
  void publish(const std::function<void(io::ResultFile&)>& store);

 private:
  void expect_own_file() const;

  std::filesystem::path path_;
  io::Overwrite overwrite_;
  std::string published_;  ///< UUID of the file that this run has written; empty: none yet
};

}  // namespace shardstream::experiments
