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

/// Makes the data set `name` a dimension scale.
inline void make_scale(const hdf5::File& file, const std::string& name,
                       const std::string& scale_name) {
  const hdf5::Lock lock;
  const hdf5::Dataset dataset(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), "H5Dopen2");
  hdf5::write_fixed_attribute(dataset.get(), "CLASS", "DIMENSION_SCALE");
  hdf5::write_fixed_attribute(dataset.get(), "NAME", scale_name);
}

/// Attaches one scale to each dimension of the data set `name`; none if its path is empty.
inline void attach_scales(const hdf5::File& file, const std::string& name,
                          const std::vector<std::string>& scales) {
  const hdf5::Lock lock;
  const hdf5::Dataset dataset(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), "H5Dopen2");
  const hdf5::Type list(H5Tvlen_create(H5T_STD_REF_OBJ), "H5Tvlen_create");
  std::vector<hobj_ref_t> references(scales.size());
  std::vector<hvl_t> lists(scales.size());
  for (std::size_t d = 0; d < scales.size(); ++d) {
    if (scales[d].empty()) continue;
    hdf5::check(H5Rcreate(&references[d], file.get(), scales[d].c_str(), H5R_OBJECT, -1),
                scales[d]);
    lists[d] = {1, &references[d]};
  }
  const hsize_t rank = scales.size();
  const hdf5::Space space(H5Screate_simple(1, &rank, nullptr), "space");
  const hdf5::Attribute attribute(H5Acreate2(dataset.get(), "DIMENSION_LIST", list.get(),
                                             space.get(), H5P_DEFAULT, H5P_DEFAULT),
                                  "DIMENSION_LIST");
  hdf5::check(H5Awrite(attribute.get(), list.get(), lists.data()), "H5Awrite");
}

/// 0, 1, 2, … as T.
template <class T>
std::vector<T> counting(std::size_t count, T first = 0) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

}  // namespace shardstream::test
