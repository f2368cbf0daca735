#include "io/dataset_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "core/error.hpp"
#include "io/hdf5.hpp"
#include "io/stored_type.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

/// Data begin at a multiple of this, so that they can be read past the page cache.
constexpr hsize_t alignment = 4096;

hdf5::Properties aligned_access() {
  auto access = hdf5::posix_access(false);
  check(H5Pset_alignment(access.get(), alignment, alignment), "cannot align a data set");
  return access;
}

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

/// Lays the file out and returns where the data set's bytes begin.
std::uint64_t lay_out(const std::filesystem::path& part, const std::string& dataset,
                      ElementType type, std::uint64_t count) {
  const auto what = fmt::format("cannot create '{}' in '{}'", dataset, part.string());
  const hdf5::Lock lock;
  const auto access = aligned_access();
  const auto creation = preallocated();
  const auto link = with_groups();
  const hsize_t extent = count;
  const hdf5::Space space(H5Screate_simple(1, &extent, nullptr), what);
  hdf5::File file(H5Fcreate(part.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), what);
  hdf5::Dataset created(H5Dcreate2(file.get(), dataset.c_str(), native_type(type), space.get(),
                                   link.get(), creation.get(), H5P_DEFAULT),
                        what);
  const haddr_t offset = H5Dget_offset(created.get());
  expect(offset != HADDR_UNDEF, "a data set allocated early has its place in the file");
  check(created.close(), what);
  check(file.close(), what);
  return offset;
}

/// A data set's path must name something below the root.
void expect_data_set_path(const std::string& dataset) {
  if (dataset.size() > 1 && dataset.front() == '/' && dataset.back() != '/') return;
  throw UsageError(
      fmt::format("'{}' cannot be a data set's name: write it as /NAME or /GROUP/NAME", dataset));
}

}  // namespace

DatasetFile::DatasetFile(const std::filesystem::path& path, bool overwrite, const std::string& uuid,
                         const std::string& dataset, ElementType type, std::uint64_t count)
    : part_(path, overwrite, uuid) {
  expect_data_set_path(dataset);
  expect(count > 0 && count <= INT64_MAX / size_of(type),
         "a data set has between 1 and 2^63 bytes");
  part_.reserve(count * size_of(type));  // before HDF5 can meet a full disk; its cutting ends it
  offset_ = lay_out(part_.part_path(), dataset, type, count);
  part_.reserve(offset_ + count * size_of(type));
}

RangeWriter::RangeWriter(std::filesystem::path part_path, std::uint64_t offset, ElementType type)
    : path_(std::move(part_path)), offset_(offset), type_(type), file_(path_, O_WRONLY) {
  if (file_.valid()) return;
  throw Error(fmt::format("cannot open '{}' for writing ({}): every rank must see the same folder",
                          path_.string(), errno_text(errno)));
}

void RangeWriter::write(std::uint64_t first, std::span<const std::byte> data) const {
  expect(data.size() % size_of(type_) == 0, "whole elements are written");
  if (file_.write_at(offset_ + first * size_of(type_), data)) return;
  throw Error(fmt::format("cannot write elements {} to {} of '{}' ({})", first,
                          first + data.size() / size_of(type_) - 1, path_.string(),
                          errno_text(errno)));
}

void RangeWriter::sync() const {
  if (::fsync(file_.get()) == 0) return;
  throw Error(fmt::format("cannot write '{}' to disk ({}): check its file system", path_.string(),
                          errno_text(errno)));
}

}  // namespace shardstream::io
