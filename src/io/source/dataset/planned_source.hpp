// Data sets of files. ContiguousSource reads data sets whose elements are adjacent in the file, the
// readers of chunks/ most chunked ones, and the library of the format the rest.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "io/source/dataset/dataset_plan.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {

/// Opens the selected elements of plan.dimensions. `opened` is the file of the plan, if it is still
/// open. `memory` is for decoded chunks, and may be shared. Throws UsageError if O_DIRECT is
/// requested and not supported, and Error if the file cannot be opened.
std::unique_ptr<DatasetSource> open_planned(const DatasetPlan& plan, const DatasetRequest& request,
                                            std::shared_ptr<DecodingMemory> memory,
                                            std::unique_ptr<OpenFile> opened = nullptr);

/// An upper bound of the descriptors and the memory, in bytes, of a data set that is open, without
/// decoded chunks.
struct OpeningCost {
  std::uint64_t descriptors, bytes;
};
OpeningCost cost_of_opening(const DatasetPlan& plan, ReadOrder order);

/// Opens the data set at `path` of `file`, or the file's only data set if `path` is empty. Throws
/// UsageError; the caller adds the name of the option.
std::unique_ptr<Source> open_dataset_source(const std::filesystem::path& file, std::string path,
                                            const DatasetRequest& request);

}  // namespace shardstream::io
