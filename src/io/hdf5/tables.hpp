// A Table as an HDF5 data set in the layout of the HDF5 Table specification, which h5py, PyTables
// and pandas open: a flat compound type, fixed strings, one record a row.
#pragma once

#include <string>
#include <vector>

#include "core/table.hpp"
#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// Writes `table` under its name into `group`, an open group. Throws Error. Needs the lock.
void write_table(hid_t group, const Table& table);

/// These columns of a table that write_table() has written as `dataset`, which may have more, under
/// the table's title. `name` is for messages. Throws Error if one is missing or of another type,
/// or if the table is larger than any of this program. Needs the lock.
Table read_table(const hdf5::Dataset& dataset, const std::string& name,
                 const std::vector<Column>& columns);

/// The columns of such a table, with their units. Throws Error as read_table() does. Needs the
/// lock.
std::vector<Column> columns_of(const hdf5::Dataset& dataset, const std::string& name);

}  // namespace shardstream::io
