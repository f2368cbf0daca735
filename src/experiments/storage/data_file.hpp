// The data set that an option of an experiment names.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/bench.hpp"
#include "io/source/dataset/planned_source.hpp"

namespace shardstream::experiments::storage {

/// The data set FILE.h5:/PATH that the option `key` names.
class DataFile {
 public:
  /// `key` is the experiment's Needs::file, so that the option names a file.
  DataFile(const Bench& bench, std::string_view key) : DataFile(bench.options(), key) {}
  DataFile(const Options& options, std::string_view key);

  const std::string& file() const { return file_; }
  /// Throws UsageError, which names the option, if the data set does not exist or cannot be read in
  /// this way.
  std::unique_ptr<io::Source> open(io::ReadWay way) const;
  /// All files that contain the data; none if open() would throw.
  std::vector<io::InputFile> inputs() const;

 private:
  std::string key_, file_;
  std::string path_;  ///< empty: the only data set of the file
};

/// A remark: how much of the data is in the page cache.
std::string page_cache_of(const io::Source& source);

}  // namespace shardstream::experiments::storage
