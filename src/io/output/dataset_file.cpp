#include "io/output/dataset_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "io/hdf5/handles.hpp"
#include "io/hdf5/stored_type.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

/// Creates the file with its data set and returns the offset of the data set's bytes.
std::uint64_t make_file(const std::filesystem::path& part, const std::string& dataset,
                        ElementType type, const std::vector<std::uint64_t>& shape) {
  const auto what = fmt::format("cannot create '{}'", part.string());
  const hdf5::Lock lock;
  const auto access = aligned_access();
  hdf5::File file(H5Fcreate(part.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), what);
  const std::uint64_t offset = lay_out(file, dataset, type, shape);
  hdf5::Object root(H5Oopen(file.get(), "/", H5P_DEFAULT), what);
  hdf5::write_attribute(root.get(), "schema", std::string(generated_schema));
  hdf5::write_attribute(root.get(), "schema_version", std::int64_t{1});
  check(root.close(), what);
  check(file.close(), what);
  return offset;
}

/// Throws UsageError unless the path names an object below the root.
void expect_data_set_path(const std::string& dataset) {
  if (dataset.size() > 1 && dataset.front() == '/' && dataset.back() != '/') return;
  throw UsageError(
      fmt::format("'{}' cannot be a data set's name: write it as /NAME or /GROUP/NAME", dataset));
}

constexpr hsize_t alignment = 4096;

/// HDF5 allocates the storage at creation and never fills it, since RangeWriter writes it.
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

DatasetFile::DatasetFile(const std::filesystem::path& path, Overwrite overwrite,
                         const std::string& uuid, const std::string& dataset, ElementType type,
                         const std::vector<std::uint64_t>& shape)
    : part_({path, Contents::generated, overwrite}, uuid) {
  expect_data_set_path(dataset);
  const std::uint64_t bytes = bytes_of(type, shape);
  part_.reserve(
      bytes);  // reports a full disk before HDF5 does; HDF5 truncates the file, which ends it
  offset_ = make_file(part_.part_path(), dataset, type, shape);
  part_.reserve(offset_ + bytes);
}

RangeWriter::RangeWriter(std::filesystem::path part_path, std::uint64_t offset, ElementType type,
                         std::uint64_t columns)
    : path_(std::move(part_path)),
      offset_(offset),
      type_(type),
      columns_(columns),
      file_(path_, O_WRONLY | O_NOFOLLOW) {
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

void RangeWriter::write(Range rows, Range columns, const std::byte* data,
                        std::size_t stride) const {
  expect(columns.first <= columns_ && columns.count <= columns_ - columns.first,
         "a rectangle ends inside its data set");
  const std::size_t row_bytes = columns.count * size_of(type_);
  if (columns.count == columns_ && stride == row_bytes) {
    return write(rows.first * columns_, {data, rows.count * row_bytes});
  }
  for (std::uint64_t row = 0; row < rows.count; ++row) {
    write((rows.first + row) * columns_ + columns.first, {data + row * stride, row_bytes});
  }
}

void RangeWriter::sync() const {
  if (::fsync(file_.get()) == 0) return;
  throw Error(fmt::format("cannot write '{}' to disk ({}): check its file system", path_.string(),
                          errno_text(errno)));
}

std::uint64_t bytes_of(ElementType type, const std::vector<std::uint64_t>& shape) {
  std::uint64_t bytes = size_of(type);
  for (const auto extent : shape) bytes = saturating_product(bytes, extent);
  expect(bytes > 0 && bytes <= INT64_MAX, "a data set has between 1 and 2^63 - 1 bytes");
  return bytes;
}

hdf5::Properties aligned_access() {
  auto access = hdf5::posix_access(hdf5::FileLocking::off);
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
