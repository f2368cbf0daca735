// Reads blocks of a data set with H5Dread, and converts elements of foreign formats with HDF5's
// conversions.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/description/format.hpp"
#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// How many elements of a data set have storage in its file.
enum class Allocation { none, partly, whole };

/// A data set that is read with H5Dread.
class Hdf5Data final : public LibraryData {
 public:
  /// `file` contains the data set. Needs the lock.
  Hdf5Data(hdf5::File file, hdf5::Dataset dataset, Description about);
  /// Closes the file while a crash can still be reported.
  ~Hdf5Data() override;

  std::unique_ptr<const LibraryReader> start() const override;

 private:
  class Reader;

  void convert_fill(hid_t stored);

  hdf5::File file_;
  hdf5::Dataset dataset_;
  Description about_;
  Allocation allocation_;                      // `partly` also if it is unknown
  std::vector<std::byte> fill_;                // what read() gives for elements without storage
  std::optional<std::string> fill_complaint_;  // set if form.type cannot hold it
};

}  // namespace shardstream::io
