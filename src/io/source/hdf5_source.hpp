// Data sets of HDF5 files. ContiguousSource reads data sets whose elements are adjacent in the
// file, the readers of chunks/ most chunked ones, and HDF5 the rest, in one thread at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "io/source/contiguous_source.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {

/// How a data set is opened.
struct DatasetRequest {
  /// The type of the elements; without it, the type that fits the stored or unpacked values.
  std::optional<ElementType> type = {};
  ReadWay way = ReadWay::automatic;  ///< of contiguous data sets
  ReadOrder order = ReadOrder::elements;
  Unwritten unwritten = Unwritten::fill;  ///< as for trace_origin()
  /// Whether attributes of the data set apply, as read_conventions() describes.
  bool conventions = false;
  /// For matrices: whether integers with missing values become f64, so that missing ones are NaN,
  /// and u64 becomes i64.
  bool missing_as_nan = false;
  /// The remedy in the message for a value that does not fit `type`; if it is empty, the message
  /// suggests a type.
  std::string misfit_remedy = {};
  std::uint64_t rows = 0;  ///< use only the first rows of the first dimension; 0: all
};

/// Opens the data set at `path` of `file`, or the file's only data set if `path` is empty. Throws
/// UsageError; the caller adds the name of the option.
std::unique_ptr<Source> open_hdf5_source(const std::filesystem::path& file, std::string path,
                                         const DatasetRequest& request);

}  // namespace shardstream::io
