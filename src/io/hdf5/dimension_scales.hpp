// Writes dimension scales, HDF5's convention for the names of dimensions, as netCDF-4 uses it. So
// netCDF, xarray and h5py know the dimensions of results. `dimensions.hpp` reads them. The caller
// must hold the lock. All functions throw Error.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// The beginning of the attribute NAME of a scale that only stands for the extent of a dimension:
/// netCDF's dimensions without a variable.
inline constexpr std::string_view extent_only_name =
    "This is a netCDF dimension but not a netCDF variable";

/// Turns a data set of one dimension into a dimension scale that only stands for this dimension and
/// its extent. Programs that read netCDF ignore its elements, whatever their type.
void make_extent_only(hid_t dataset, std::uint64_t extent);

/// Turns a data set of one dimension into a dimension scale with the coordinates of this dimension.
/// `name` is the name of the data set.
void make_coordinates(hid_t dataset, const std::string& name);

/// The names of the dimensions of a data set.
struct NamedDimensions {
  std::string dataset;
  std::vector<std::string> names;  ///< those of dimension scales, one per dimension
};

/// Attaches scales to data sets. All of them are members of `group`, and have no scales yet. No
/// data set has the same scale twice, since netCDF does not allow that.
void attach_scales(hid_t group, std::span<const NamedDimensions> datasets);

}  // namespace shardstream::io
