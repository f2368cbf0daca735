// The problems of a weak scaling study: the options of a run with a multiple of its work.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/options.hpp"

namespace shardstream::workloads {

struct Scaled {
  std::vector<std::pair<std::string, std::string>> options;  ///< the keys that change, and values
  double factor = 1;  ///< the counted work over the base's; sizes are whole numbers
};

/// The option `key`, a count, times `factor`.
Scaled scaled_count(const Options& options, std::string_view key, double factor);

/// `input.rows` times `factor`, if input.data names a file. Throws UsageError if input.rows is
/// auto: all rows of the file cannot grow.
Scaled scaled_rows(const Options& options, double factor);

}  // namespace shardstream::workloads
