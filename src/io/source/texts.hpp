// Data sets of texts with one dimension, such as the names of groups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.hpp"
#include "io/source/dimension_labels.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {

/// The used texts of a data set.
struct Texts {
  std::string name;  ///< "l.h5:/basin"
  std::string path;  ///< of the data set in its file
  SourceDimension dimension;
  std::vector<std::string> values;    ///< a missing text is empty
  std::optional<Labels> coordinates;  ///< of the used indices, if they can be read
  Origin origin;
};

/// Reads the data set FILE:/PATH or FILE:/PATH[SELECTION] that the option `key` names. FILE may be
/// a pattern; the texts of all files then follow one another. Texts have fixed or variable length,
/// or they are the rows of a matrix of characters, as netCDF has them. The attributes `_FillValue`
/// and `missing_value` apply. Nothing if the option names no data set of texts. Throws UsageError
/// if it cannot be read, does not have one dimension, or has more than `max` texts.
std::optional<Texts> open_texts(const Options& options, std::string_view key, std::uint64_t max);

}  // namespace shardstream::io
