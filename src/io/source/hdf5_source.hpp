// Data sets of HDF5 files. What stands in the file as it is wanted in memory is left to
// ContiguousSource; everything else HDF5 reads and converts, one thread at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "io/source/contiguous_source.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {

/// What will be asked of a source.
enum class ReadOrder {
  elements,    ///< ranges of elements: chunk by chunk
  rectangles,  ///< rectangles, which share the chunks that they cut
};

/// Opens the data set at `path` of `file`, the file's only one if `path` is empty. Without `type`
/// the elements have the type that fits the stored one. `way` is how a contiguous data set is read.
/// `misfit_remedy` is what a message advises where a value does not fit `type`; empty: a better
/// type. `unwritten` is as for trace_origin(). Only the first `rows` of the leading dimension are
/// taken; 0: all. Throws UsageError, before which the caller names the
/// option.
std::unique_ptr<Source> open_hdf5_source(const std::filesystem::path& file, std::string path,
                                         std::optional<ElementType> type, ReadWay way,
                                         ReadOrder read_order, Unwritten unwritten,
                                         const std::string& misfit_remedy, std::uint64_t rows = 0);

}  // namespace shardstream::io
