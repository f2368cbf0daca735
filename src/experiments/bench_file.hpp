// The result file of `bench`, which is replaced after each experiment. One rank writes it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "io/hdf5/result_file.hpp"
#include "io/output/part_file.hpp"

namespace shardstream::experiments {

class BenchFile {
 public:
  explicit BenchFile(io::Destination destination) : destination_(std::move(destination)) {}

  const std::filesystem::path& path() const { return destination_.path; }

  /// Throws UsageError if the file cannot be created, as far as can be known now.
  void expect_destination() const;

  /// Replaces the file of this run by what `store` writes. Throws Error if another process has
  /// replaced that file, unless output.overwrite permits overwriting it.
  void publish(const std::function<void(io::ResultFile&)>& store);

 private:
  void expect_own_file() const;

  io::Destination destination_;
  std::string published_;  ///< UUID of the file that this run has written; empty: none yet
};

}  // namespace shardstream::experiments
