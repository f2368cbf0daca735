// The weights of elements: the option reduce.weights.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/options.hpp"
#include "io/description/origin.hpp"
#include "io/source/dimension_match.hpp"
#include "io/source/source.hpp"

namespace shardstream::workloads {

/// Weights along some dimensions of the data. All elements with the same indices along these have
/// the same weight.
struct CellWeights {
  /// Indices into Source::dimensions() of the data, in ascending order; at least one. None of them
  /// is removed by an index.
  std::vector<std::size_t> dimensions;
  /// The weights of the selected indices, row by row along `dimensions`: finite, not negative, and
  /// not all 0. They are divided by 2^exponent, so that their squares are in the range of double.
  std::vector<double> values;
  int exponent = 0;   ///< 0 unless some weights are very small or large
  std::string name;   ///< of their data set, "area.nc:/area"
  std::string units;  ///< the attribute of their data set; empty if it has none
  io::PairedDimensions paired;
  io::Origin origin;  ///< their files
};

/// The largest number of weights, which are kept in memory.
inline constexpr std::uint64_t max_weights = std::uint64_t{1} << 27;

/// The weights for `data` that the option names; nothing if it is empty. The dimensions of the
/// weights are some of the data's. If all have names, they are found by name, in any order. Else
/// they are found by their lengths, in their order in the data; if several ways fit, the one in
/// which all are in `reduced` is taken. A dimension of the weights has either the selected indices
/// of its dimension, or all of them, and then those that are selected count. Along a dimension,
/// weights are paired with the data by io::pair_elements(). `reduced` has indices into
/// data.dimensions(). Throws UsageError if the data set cannot be read or has more than
/// `max_weights` elements; if its dimensions do not fit, or fit in several ways; if weights cannot
/// be paired; and, with its index, for the first weight that is negative or not finite; and if all
/// are 0. Its origin has a warning if none of the dimensions is reduced,
/// so that some of the operations `ops` are as without weights. Takes the lock of HDF5.
std::optional<CellWeights> open_weights(const Options& options, const io::Source& data,
                                        std::span<const std::size_t> reduced,
                                        std::span<const std::string> ops = {});

}  // namespace shardstream::workloads
