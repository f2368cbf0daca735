// Additions of netCDF-4 to HDF5: names of variables, dimensions without data, signs of netCDF. The
// caller must hold the lock.
#pragma once

#include <string>

#include "io/hdf5/handles.hpp"
#include "types/stored.hpp"

namespace shardstream::io {

/// Whether a data set is a dimension of netCDF that is no variable, so that its elements mean
/// nothing. Tables of this program are dimensions for netCDF as well, but here they are data.
bool is_bare_dimension(hid_t dataset);

/// The path of the data set that `path`, a name of netCDF, means below `group`. netCDF stores a
/// variable with the name of a dimension, but not along this dimension alone, as a data set with
/// another name. `access` are properties of link access.
std::string stored_path(hid_t group, const std::string& path, hid_t access);

/// The name that netCDF has for the data set at `path`.
std::string netcdf_path(hid_t group, const std::string& path, hid_t access);

/// Whether there is a link at `path`, even a broken one.
bool link_exists(hid_t group, const std::string& path, hid_t access = H5P_DEFAULT);

/// Whether the netCDF library, or a library that imitates it, has written a data set with elements
/// of type `stored`. The signs are an attribute of the file's root (`_NCProperties`, in files of
/// netCDF 4.4.1 and above; `_nc3_strict`), hidden attributes of the data set or of one of its
/// dimension scales, a scale that is_bare_dimension(), and netCDF's default fill value as the one
/// of HDF5. The file may have been reached through an external link.
bool is_netcdf(const hdf5::Dataset& dataset, StoredType stored);

}  // namespace shardstream::io
