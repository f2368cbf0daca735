// Reads options from SHARDSTREAM_* variables.
#pragma once

#include <string>
#include <vector>

#include "core/options/row.hpp"

namespace shardstream::options {

/// Adds the value of each variable that names an option. `environment` has the form of environ.
/// A variable that names no option gives a warning, not an error: sites set SHARDSTREAM_ROOT and
/// the like.
void read_environment(const std::vector<OptionRow>& rows, const char* const* environment,
                      Values& values, std::vector<std::string>& warnings);

}  // namespace shardstream::options
