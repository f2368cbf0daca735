// Weights that an option names as a data set.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/options.hpp"
#include "io/source/source.hpp"

namespace shardstream::workloads {

/// Opens the data set that the option `key` names, in its own type. Throws UsageError if the option
/// names no file, or if the data set cannot be opened.
std::unique_ptr<io::Source> open_weight_source(const Options& options, std::string_view key);

/// All weights of a source, row by row; missing ones are NaN. Throws Error if they cannot be read.
std::vector<double> read_weights(const io::Source& source);

/// Throws UsageError, with its position, for the first weight that is negative or not finite, and
/// if all are 0. `index_of` returns the index of a weight among all weights of `source`, row by
/// row.
void expect_weights(std::string_view key, const io::Source& source, std::span<const double> weights,
                    const std::function<std::uint64_t(std::uint64_t)>& index_of = std::identity());

}  // namespace shardstream::workloads
