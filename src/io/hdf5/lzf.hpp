// The filter lzf of h5py, which libhdf5 does not contain: its decoder, and its registration with
// HDF5, so that H5Dread decodes it, too.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardstream::io {

/// The registered number of the filter lzf.
inline constexpr H5Z_filter_t lzf_filter = 32'000;

/// Decodes an LZF stream into exactly `bytes` bytes at `out`. Throws Error with the reason if the
/// stream is damaged or decodes to another size. Thread-safe. The format is that of liblzf 3.6.
void decode_lzf(std::span<const std::byte> stream, std::byte* out, std::uint64_t bytes);

/// Lets HDF5 decode the filter. Later calls do nothing. Needs the lock.
void register_lzf();

}  // namespace shardstream::io
