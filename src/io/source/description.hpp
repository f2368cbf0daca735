// The description of a data set in an HDF5 file: everything that is known before its elements are
// read. The caller must hold the lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5/handles.hpp"
#include "io/source/element_order.hpp"
#include "kernels/data/element.hpp"

namespace shardstream::io {

/// How many elements of a data set have storage in its file.
enum class Allocation { none, partly, whole };

struct DatasetDescription {
  std::string name;  ///< FILE:/PATH
  std::string stored_as;
  ElementType natural;    ///< the type that fits the stored one
  ElementType delivered;  ///< the type that HDF5 is asked for
  ElementType wanted;     ///< the type that read() returns
  Extents shape, box;
  std::uint64_t stored_rows;  ///< of the first dimension; `shape` may have fewer
  bool scalar;
  std::size_t stored_size;  ///< of one element in the file, in bytes
  H5D_layout_t layout;
  std::vector<std::string> filters;  ///< "32001 (blosc)"
  bool converted, sign_differs;
  bool as_delivered;   ///< whether stored and delivered bytes are equal, except for their order
  bool order_differs;  ///< whether only the byte order differs
  std::uint64_t stored_bytes;
  Allocation allocation;        ///< `partly` also if it is unknown
  std::vector<std::byte> fill;  ///< the delivered value of elements that were never written
  std::optional<std::string> fill_complaint;  ///< set if the delivered type cannot hold `fill`
  bool may_have_gaps = true;  ///< whether elements may have the fill value; see Origin
};

/// Describes a data set whose elements are wanted as `requested`, or as the type that fits. Throws
/// UsageError if it has no elements or too many, no numbers, an unknown filter, or is damaged.
DatasetDescription describe(const hdf5::Dataset& dataset, const std::string& name,
                            std::optional<ElementType> requested);

/// Limits the description to the first `rows` rows of the first dimension. Throws UsageError if the
/// data set has fewer.
void take_rows(DatasetDescription& about, std::uint64_t rows);

}  // namespace shardstream::io
