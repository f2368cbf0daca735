#include "experiments/storage/data_file.hpp"

#include <fmt/format.h>

#include <optional>

#include "core/error.hpp"
#include "io/description/dataset_name.hpp"

namespace shardstream::experiments::storage {

DataFile::DataFile(const Options& options, std::string_view key) : key_(key) {
  const std::string& text = options.text(key);
  expect(!text.empty(), "an experiment runs only if the file that it needs is named");
  const io::DatasetName name = io::dataset_name(text);
  file_ = name.file;
  path_ = name.within_file();
}

std::unique_ptr<io::Source> DataFile::open(io::ReadWay way) const {
  try {
    return io::open_dataset_source(file_, path_, {.way = way});
  } catch (const ContractError&) {
    throw;
  } catch (const Error& error) {
    throw UsageError(fmt::format("{}: {}", key_, error.what()), error.where());
  }
}

std::vector<io::InputFile> DataFile::inputs() const {
  try {
    return open(io::ReadWay::cached)->origin().files;
  } catch (const UsageError&) {
    return {};  // the experiment reports it
  }
}

std::string page_cache_of(const io::Source& source) {
  const auto share = io::cached_share(source, {0, source.count()});
  return fmt::format("page cache {} before", io::page_cache_state(share));
}

}  // namespace shardstream::experiments::storage
