// The filter lzf of h5py, which libhdf5 does not contain: its registration with HDF5, so that
// H5Dread decodes it, too.
#pragma once

#include <hdf5.h>

namespace shardstream::io {

/// The registered number of the filter lzf.
inline constexpr H5Z_filter_t lzf_filter = 32'000;

/// Lets HDF5 decode the filter. Later calls do nothing. Needs the lock.
void register_lzf();

}  // namespace shardstream::io
