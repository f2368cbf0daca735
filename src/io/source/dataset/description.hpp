// The description of a data set in an HDF5 file: everything that is known before its elements are
// read. The caller must hold the lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5/handles.hpp"
#include "io/hdf5/member.hpp"
#include "io/hdf5/stored_type.hpp"
#include "io/source/dataset/dataset_source.hpp"
#include "io/source/element_order.hpp"
#include "kernels/data/stored.hpp"

namespace shardstream::io {

/// How many elements of a data set have storage in its file.
enum class Allocation { none, partly, whole };

struct DatasetDescription {
  std::string name;    ///< FILE:/PATH
  std::string member;  ///< of a compound type; may be empty
  std::string stored_as;
  StoredForm form;        ///< how stored elements are read
  Conversion conversion;  ///< from form.type; describe() leaves its elements to the caller
  std::vector<SourceDimension> dimensions;  ///< a scalar has one of extent 1
  Extents shape, box;                       ///< of all elements in the file
  bool scalar;
  std::size_t stored_size;  ///< of one element in the file, in bytes
  Record record;            ///< the place of the stored elements in those of the file
  H5D_layout_t layout;
  std::vector<std::string> filters;  ///< "32001 (blosc)"
  std::uint64_t stored_bytes;
  Allocation allocation;                      ///< `partly` also if it is unknown
  std::vector<std::byte> fill;                ///< the form.type of elements that were never written
  std::optional<std::string> fill_complaint;  ///< set if form.type cannot hold `fill`
  bool may_have_gaps = true;  ///< whether elements may have the fill value; see Origin
};

/// Describes a data set, or a member of its compound type unless `member` is empty. Throws
/// UsageError if it has no elements or too many, no numbers, an unknown filter, or is damaged.
DatasetDescription describe(const hdf5::Dataset& dataset, const std::string& name,
                            const std::string& member);

/// The elements that DatasetDescription::member names in the stored type, or all of it.
Member element_of(hid_t stored, const std::string& member, const std::string& name);

/// Limits the selection to its first `rows` indices of the first dimension that is not an index.
/// Throws UsageError if it has fewer.
void take_rows(std::vector<SourceDimension>& dimensions, std::uint64_t rows,
               const std::string& name);

}  // namespace shardstream::io
