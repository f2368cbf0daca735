// Finds the data set that a user has named in an HDF5 file. If it does not exist, the message lists
// existing ones. All functions throw UsageError; the caller adds the name of the option. The caller
// must hold the lock.
#pragma once

#include <filesystem>
#include <string>

#include "io/description/dataset_name.hpp"
#include "io/hdf5/handles.hpp"
#include "io/hdf5/referenced_files.hpp"

namespace shardstream::io {

/// Opens an existing file for reading, with the POSIX driver.
hdf5::File open_input_file(const std::filesystem::path& file);

/// The path of the file's only data set of numbers. It is an error if the user may have meant
/// another one, even if that one cannot be opened or computed. `name` is the name of the file for
/// messages.
std::string only_dataset(const hdf5::File& file, const std::string& name);

/// `name` as the open file `file` means it: if something there has the name within_file() or
/// path_and_member(), then its brackets and braces are a part of the path. The path of a netCDF
/// variable is its name in netCDF. Throws UsageError if a selection is not at the end of the name.
DatasetName resolve_braces(const hdf5::File& file, const DatasetName& name);

/// Opens the data set at `path`, a name of netCDF (netcdf.hpp) or HDF5, with the access properties
/// of `links`, which records the external links on the way. A dimension of netCDF without a
/// variable is an error.
hdf5::Dataset open_dataset(const hdf5::File& file, const std::string& name, const std::string& path,
                           FollowedLinks& links);
hdf5::Dataset open_dataset(const hdf5::File& file, const std::string& name,
                           const std::string& path);

/// Whether `file` has a data set at `path`.
bool has_dataset(const std::filesystem::path& file, const std::string& path);

/// The file that contains a data set; not the opened file if an external link led there.
std::string file_of(const hdf5::Dataset& dataset);

/// Opens the data set at `path` of the same file, without external links. Not valid if there is
/// none.
hdf5::Dataset dataset_within(hid_t file, const std::string& path);

/// Whether `path` leads to an object of the same file, without external links.
bool leads_to(hid_t file, const std::string& path, hid_t object);

/// The path of a data set in that file.
std::string path_of(const hdf5::Dataset& dataset);

}  // namespace shardstream::io
