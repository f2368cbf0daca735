// Weights that an option names as a data set.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/options.hpp"
#include "io/source/dimension_match.hpp"
#include "io/source/source.hpp"

namespace shardstream::workloads {

/// Opens the data set that the option `key` names, in its own type. Throws UsageError if the option
/// names no file, or if the data set cannot be opened.
std::unique_ptr<io::Source> open_weight_source(const Options& options, std::string_view key);

/// All weights of a source, row by row; missing ones are NaN. Throws Error if they cannot be read.
std::vector<double> read_weights(const io::Source& source);

/// The weights of elements with some dimensions. All elements with the same indices along the
/// dimensions that the weights have, too, have the same weight.
class WeightPlaces {
 public:
  /// A dimension of the elements.
  struct Dimension {
    /// The index along the dimension of the weights for each index.
    io::DimensionPairs pairs;
    std::uint64_t stride;  ///< of these indices among all weights; 0 if the weights lack it
  };

  explicit WeightPlaces(std::vector<Dimension> dimensions) : dimensions_(std::move(dimensions)) {}

  /// The index of the weight of this element among all weights, row by row.
  std::uint64_t index_of(std::uint64_t element) const;
  /// The weight of each element, row by row. `all`: all weights, row by row.
  std::vector<double> pick(const std::vector<double>& all) const;

 private:
  std::vector<Dimension> dimensions_;
};

/// Adds a warning if some of the weights that are used equal netCDF's default fill value.
void warn_of_default_fill(const Options& options, const io::Source& source,
                          std::span<const double> weights, std::vector<std::string>& warnings);

/// Throws UsageError, with its position, for the first weight that is negative or not finite, and
/// if all are 0. `places` has the index of each weight among all weights of `source`.
void expect_weights(std::string_view key, const io::Source& source, std::span<const double> weights,
                    const WeightPlaces& places);

}  // namespace shardstream::workloads
