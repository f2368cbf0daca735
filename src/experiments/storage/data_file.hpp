// The data set that an option of an experiment names.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "experiments/bench.hpp"
#include "io/source/hdf5_source.hpp"

namespace shardstream::experiments::storage {

/// FILE.h5:/PATH, as `key` gives it.
class DataFile {
 public:
  /// `key` is the experiment's Needs::file, so that the option names a file.
  DataFile(const Bench& bench, std::string_view key);

  const std::string& file() const { return file_; }
  /// Throws UsageError, which names the option, if there is no such data set or it cannot be read
  /// in this way.
  std::unique_ptr<io::Source> open(io::ReadWay way) const;

 private:
  std::string key_, file_;
  std::string path_;  ///< empty: the file's only data set
};

/// The part of the data that is in the page cache, in words.
std::string page_cache_of(const io::Source& source);

}  // namespace shardstream::experiments::storage
