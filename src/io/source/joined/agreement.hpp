// The properties that data sets of several files must have in common to be joined.
#pragma once

#include <span>

#include "io/source/dataset/dataset_plan.hpp"

namespace shardstream::io {

/// Throws UsageError unless both data sets can be joined along their first dimension: the extents
/// and names of all other dimensions, the stored types, the units and the types of the elements are
/// the same, and the same conventions are applied. Values of fill values, limits, factors and
/// offsets may differ. The message names both files and the property.
void expect_joinable(const DatasetPlan& first, const DatasetPlan& other);

/// Gives all data sets the same element for missing values, if their elements are integers: a
/// stored value that is missing in each of them. Throws UsageError if there is none.
void agree_on_missing_element(std::span<DatasetPlan> plans);

}  // namespace shardstream::io
