// HDF5 files for tests, created with the C API, with any contents that a user's file may have.
#pragma once

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "io/hdf5/handles.hpp"

namespace shardstream::test {

namespace hdf5 = io::hdf5;

inline hdf5::File make_file(const std::string& path, hsize_t user_block = 0) {
  const hdf5::Lock lock;
  const hdf5::Properties creation(H5Pcreate(H5P_FILE_CREATE), "H5Pcreate");
  if (user_block > 0) hdf5::check(H5Pset_userblock(creation.get(), user_block), "user block");
  return hdf5::File(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT),
                    "H5Fcreate");
}

/// The storage of a data set.
struct Storage {
  std::vector<hsize_t> shape;  ///< empty: a scalar
  std::vector<hsize_t> chunk = {};
  std::function<void(hid_t creation)> more = [](hid_t) {};
};

/// Creates the data set `name` of type `stored`. Writes `data` of type `given` unless it is null.
inline void make_dataset(const hdf5::File& file, const std::string& name, hid_t stored,
                         const Storage& storage, hid_t given, const void* data) {
  const hdf5::Lock lock;
  const hdf5::Properties creation(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
  if (!storage.chunk.empty()) {
    hdf5::check(
        H5Pset_chunk(creation.get(), static_cast<int>(storage.chunk.size()), storage.chunk.data()),
        "H5Pset_chunk");
  }
  storage.more(creation.get());
  const hdf5::Space space(
      storage.shape.empty()
          ? H5Screate(H5S_SCALAR)
          : H5Screate_simple(static_cast<int>(storage.shape.size()), storage.shape.data(), nullptr),
      "space");
  const hdf5::Dataset dataset(H5Dcreate2(file.get(), name.c_str(), stored, space.get(), H5P_DEFAULT,
                                         creation.get(), H5P_DEFAULT),
                              "H5Dcreate2");
  if (data == nullptr) return;
  hdf5::check(H5Dwrite(dataset.get(), given, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "H5Dwrite");
}

inline void make_group(const hdf5::File& file, const std::string& name) {
  const hdf5::Lock lock;
  hdf5::Group(H5Gcreate2(file.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "group");
}

/// 0, 1, 2, … as T.
template <class T>
std::vector<T> counting(std::size_t count, T first = 0) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

}  // namespace shardstream::test
