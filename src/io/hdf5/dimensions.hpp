// Reads the dimensions of a data set, as HDF5's dimension scales describe them, and with them
// netCDF-4. Damaged or dangling references count as missing ones. The caller must hold the lock.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "io/description/dimension.hpp"
#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// One per dimension; none for a scalar. A dimension scale is its own first dimension.
/// Throws Error if the data set has no shape that can be read. `name` is its name in messages.
std::vector<Dimension> dimensions_of(const hdf5::Dataset& dataset, const std::string& name);

/// Reads the values of the scale of a dimension (counted from 0), with its conventions (packing and
/// missing values). Nothing if there is no scale, or if it has no numbers along this dimension: it
/// is a netCDF dimension without a variable, holds texts, has several dimensions, is shorter than
/// the dimension, is larger than `max_coordinates`, or takes its values from other files. Throws
/// UsageError if its values cannot be read.
std::optional<Coordinates> read_coordinates(const hdf5::Dataset& dataset, std::size_t dimension,
                                            const std::string& name);

/// Reads the bounds of the scale of a dimension. Nothing if the scale has no attribute `bounds`.
/// The data set is found by its name in the group of the scale or in one above it. Throws
/// UsageError if its values cannot be read.
std::optional<Bounds> read_bounds(const hdf5::Dataset& dataset, std::size_t dimension,
                                  const std::string& name);

/// The scales of its dimensions; dimensions without a scale are left out.
std::vector<hdf5::Dataset> scales_of(const hdf5::Dataset& dataset);

/// Whether a data set is a dimension scale.
bool is_dimension_scale(hid_t dataset);

/// Whether a dimension scale only stands for the extent of a dimension: netCDF's dimensions without
/// a variable.
bool is_extent_only(hid_t scale);

}  // namespace shardstream::io
