// HDF5 as a format of input files, with netCDF-4.
#pragma once

#include "io/description/format.hpp"

namespace shardstream::io {

extern const Format hdf5_format;

}  // namespace shardstream::io
