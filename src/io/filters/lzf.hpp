// The decoder of h5py's filter lzf. The format is that of liblzf 3.6.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardstream::io {

/// The number of bytes that a stream decodes to. Throws Error if it is damaged.
std::uint64_t decoded_bytes_of_lzf(std::span<const std::byte> stream);

/// Decodes an LZF stream into exactly `bytes` bytes at `out`. Throws Error with the reason if the
/// stream is damaged or decodes to another size. Thread-safe.
void decode_lzf(std::span<const std::byte> stream, std::byte* out, std::uint64_t bytes);

}  // namespace shardstream::io
