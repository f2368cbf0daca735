// A Table as an HDF5 data set in the layout of the HDF5 Table specification, which h5py, PyTables
// and pandas open: a flat compound type, fixed strings, one record a row.
#pragma once

#include "core/table.hpp"
#include "io/hdf5.hpp"

namespace shardstream::io {

/// Writes `table` under its name into `group`, an open group. Throws Error. Needs the lock.
void write_table(hid_t group, const Table& table);

/// What write_table() has written as `dataset`, under its title, without units. Throws Error. Needs
/// the lock.
Table read_table(const hdf5::Dataset& dataset);

}  // namespace shardstream::io
