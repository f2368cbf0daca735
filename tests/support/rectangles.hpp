// Reads rectangles of sources.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/shard.hpp"
#include "io/source/source.hpp"

namespace shardstream::test {

/// Writes a rectangle of a source of one dimension, which is a column, or of two to `out`. `pitch`
/// is the distance of its rows in bytes.
inline void read_rectangle(const io::Source& source, Range rows, Range columns, std::byte* out,
                           std::uint64_t pitch) {
  const std::uint64_t element = size_of(source.type());
  if (source.dimensions().size() == 1) {
    source.read_block({rows.first}, {rows.count}, {pitch}, out);
  } else {
    source.read_block({rows.first, columns.first}, {rows.count, columns.count}, {pitch, element},
                      out);
  }
}

}  // namespace shardstream::test
