// Data sets of HDF5 files. ContiguousSource reads data sets whose bytes in the file are the same as
// in memory, the readers of chunks/ most chunked ones, and HDF5 the rest, in one thread at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "io/source/contiguous_source.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {

/// Opens the data set at `path` of `file`, or the file's only data set if `path` is empty. Without
/// `type`, the elements have the type that fits the stored one. `way` applies to contiguous data
/// sets. `misfit_remedy` is the remedy in the message for a value that does not fit `type`; if it
/// is empty, the message suggests a type. `unwritten` is as for trace_origin(). Only the first
/// `rows` rows of the first dimension are used; 0: all. Throws UsageError; the caller adds the name
/// of the option.
std::unique_ptr<Source> open_hdf5_source(const std::filesystem::path& file, std::string path,
                                         std::optional<ElementType> type, ReadWay way,
                                         ReadOrder read_order, Unwritten unwritten,
                                         const std::string& misfit_remedy, std::uint64_t rows = 0);

}  // namespace shardstream::io
