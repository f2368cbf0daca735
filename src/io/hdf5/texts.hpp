// Reads data sets of texts. The caller must hold the lock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/description/dimension.hpp"
#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// Texts of fixed or variable length, or the rows of a matrix of characters, as netCDF has them.
class TextData {
 public:
  /// Whether the elements of a data set are texts.
  static bool are_in(const hdf5::Dataset& dataset);

  /// `name` is the name of the data set in messages. It must outlive this object.
  TextData(const hdf5::Dataset& dataset, const std::string& name);

  /// Checks what read() relies on. Throws UsageError; also if there are more than `max` texts.
  void expect_readable(std::uint64_t max) const;
  /// All texts as they are stored; a missing one is empty.
  std::vector<std::string> read() const;

 private:
  bool is_variable() const { return H5Tis_variable_str(type_.get()) > 0; }
  bool are_rows() const {
    return dimensions_.size() == 2 && !is_variable() && H5Tget_size(type_.get()) == 1;
  }
  std::size_t size() const { return are_rows() ? dimensions_[1].extent : H5Tget_size(type_.get()); }
  void read_rows(hsize_t first, hsize_t count, void* out) const;
  void read_variable(hsize_t first, hsize_t count, std::vector<std::string>& values) const;
  void read_fixed(hsize_t first, hsize_t count, std::vector<std::string>& values) const;

  const hdf5::Dataset& dataset_;
  const std::string& name_;
  hdf5::Type type_;
  std::vector<Dimension> dimensions_;
};

}  // namespace shardstream::io
