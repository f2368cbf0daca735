// Reads blocks of a data set with H5Dread, and converts elements of foreign formats with HDF5's
// conversions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "io/hdf5/handles.hpp"
#include "io/hdf5/stored_type.hpp"
#include "io/source/dataset/description.hpp"

namespace shardstream::io {

/// The HDF5 objects that all calls for one read of a source share. Creating them costs more than
/// reading a small chunk. The functions take the lock. Not thread-safe.
class Hdf5Transfer {
 public:
  /// Needs the lock. Both arguments must outlive this object.
  Hdf5Transfer(const hdf5::Dataset& dataset, const DatasetDescription& about);

  /// Writes the elements start, start + step, ... of the data set to `out`, `extent` of them along
  /// each dimension, dense, as elements of form.type. Elements that were never written have the
  /// fill value. Returns the problem with a value that the type cannot hold, or nothing. Throws
  /// Error if HDF5 cannot read the block.
  std::optional<std::string> read(const Extents& start, const Extents& step, const Extents& extent,
                                  std::byte* out) const;

  /// Converts `count` elements of a form that is by_hdf5 to form.type, in place. Returns and throws
  /// like read().
  std::optional<std::string> convert(std::uint64_t count, std::byte* values) const;

  /// The size of an element in the file in bytes, without the rest of its record.
  std::uint64_t number_size() const { return number_size_; }

 private:
  const hdf5::Dataset& dataset_;
  const DatasetDescription& about_;
  hdf5::Type stored_, number_, in_memory_;
  std::uint64_t number_size_;
  hdf5::Space in_file_;
  CheckedConversion conversion_;
};

}  // namespace shardstream::io
