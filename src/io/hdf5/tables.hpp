// A Table as an HDF5 data set in the layout of the HDF5 Table specification, which h5py, PyTables
// and pandas can open: a flat compound type, strings of fixed length, one record per row. Only
// CLASS differs from the specification: the rows are a dimension without a variable for programs
// that read netCDF, so that they leave tables out. Otherwise netCDF-C 4.10 would overwrite memory
// when it reads strings of fixed length, and h5netcdf would open no group with a table.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/table.hpp"
#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// Writes `table` under its name into `group`, an open group. Throws Error. Needs the lock.
void write_table(hid_t group, const Table& table);

/// Calls `take` with `columns` of each row of a table that write_table() has written; the table may
/// have more. `name` is for messages. Throws Error if a column is missing or has another type, or
/// if the table is larger than any table of this program. Needs the lock.
void read_rows(const hdf5::Dataset& dataset, const std::string& name,
               const std::vector<Column>& columns,
               const std::function<void(std::span<const Cell>)>& take);

/// The same as a table.
Table read_table(const hdf5::Dataset& dataset, const std::string& name,
                 const std::vector<Column>& columns);

/// The columns of such a table, with their units. Throws Error like read_table(). Needs the lock.
std::vector<Column> columns_of(const hdf5::Dataset& dataset, const std::string& name);

}  // namespace shardstream::io
