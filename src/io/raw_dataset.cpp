#include "io/raw_dataset.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "io/stored_type.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

constexpr hsize_t alignment = 4096;

/// Storage is allocated in the file now and never filled: others write it.
hdf5::Properties preallocated() {
  hdf5::Properties creation(H5Pcreate(H5P_DATASET_CREATE), "cannot make data set properties");
  check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY),
        "cannot allocate a data set early");
  check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), "cannot leave a data set unfilled");
  return creation;
}

hdf5::Properties with_groups() {
  hdf5::Properties link(H5Pcreate(H5P_LINK_CREATE), "cannot make link properties");
  check(H5Pset_create_intermediate_group(link.get(), 1), "cannot make groups on the way");
  return link;
}

}  // namespace

std::uint64_t bytes_of(ElementType type, const std::vector<std::uint64_t>& shape) {
  std::uint64_t bytes = size_of(type);
  for (const auto extent : shape) bytes = saturating_product(bytes, extent);
  expect(bytes > 0 && bytes <= INT64_MAX, "a data set has between 1 and 2^63 - 1 bytes");
  return bytes;
}

hdf5::Properties aligned_access() {
  auto access = hdf5::posix_access(false);
  check(H5Pset_alignment(access.get(), alignment, alignment), "cannot align a data set");
  return access;
}

std::uint64_t lay_out(const hdf5::File& file, const std::string& path, ElementType type,
                      const std::vector<std::uint64_t>& shape) {
  const auto what = fmt::format("cannot create the data set '{}'", path);
  const auto creation = preallocated();
  const auto link = with_groups();
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  const hdf5::Space space(
      H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), what);
  hdf5::Dataset created(H5Dcreate2(file.get(), path.c_str(), native_type(type), space.get(),
                                   link.get(), creation.get(), H5P_DEFAULT),
                        what);
  const haddr_t offset = H5Dget_offset(created.get());
  expect(offset != HADDR_UNDEF, "a data set allocated early has its place in the file");
  check(created.close(), what);
  check(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), what);
  return offset;
}

}  // namespace shardstream::io
