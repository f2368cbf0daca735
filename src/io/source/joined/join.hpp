// Opens the data sets of several files as one.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "io/source/dataset/dataset_plan.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {

/// Joins the data sets at `path` of `files`, at least one, along their first dimension, in this
/// order. `path` is as for plan_dataset(); a member and a selection apply to the joined data set.
/// `pattern` is the name of all files. Looks at each file once and closes it again. Files without
/// rows are left out, with a warning. Throws UsageError, for example if data sets
/// do not agree (agreement.hpp, coordinates.hpp).
std::unique_ptr<Source> open_joined_source(const std::string& pattern,
                                           std::span<const std::string> files,
                                           const std::string& path, DatasetRequest request);

}  // namespace shardstream::io
