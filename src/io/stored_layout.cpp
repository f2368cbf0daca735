#include "io/stored_layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

[[noreturn]] void fail_as_damaged(const std::string& name, const std::string& what) {
  throw UsageError(fmt::format("{} is damaged ({}): copy or write it again", name, what));
}

std::uint64_t element_bytes(const hdf5::Dataset& dataset, const std::string& name) {
  const hdf5::Type type(H5Dget_type(dataset.get()), "cannot get the type of " + name);
  return H5Tget_size(type.get());
}

}  // namespace

std::vector<std::uint64_t> chunk_of(const hdf5::Dataset& dataset, const std::string& name) {
  const std::string what = "cannot get the chunk shape of " + name;
  const hdf5::Space space(H5Dget_space(dataset.get()), what);
  const hdf5::Properties creation(H5Dget_create_plist(dataset.get()), what);
  const auto rank = static_cast<std::size_t>(check(H5Sget_simple_extent_ndims(space.get()), what));
  std::vector<hsize_t> max(rank), extents(H5S_MAX_RANK);
  check(H5Sget_simple_extent_dims(space.get(), nullptr, max.data()), what);
  const int chunk_rank = check(H5Pget_chunk(creation.get(), H5S_MAX_RANK, extents.data()), what);
  if (static_cast<std::size_t>(chunk_rank) != rank) {
    fail_as_damaged(name, fmt::format("it has {} dimensions, its chunks {}", rank, chunk_rank));
  }
  const std::vector<std::uint64_t> chunk(extents.begin(), extents.begin() + chunk_rank);
  std::uint64_t bytes = element_bytes(dataset, name);
  for (std::size_t d = 0; d < rank; ++d) {
    if (chunk[d] == 0 || (max[d] != H5S_UNLIMITED && chunk[d] > max[d])) {
      fail_as_damaged(name, fmt::format("its chunks are {}, beyond its maximum extents or empty",
                                        join(chunk, "x")));
    }
    bytes = saturating_product(bytes, chunk[d]);
  }
  constexpr std::uint64_t limit = std::uint64_t{1} << 32;
  if (bytes >= limit) {
    fail_as_damaged(name,
                    fmt::format("its chunks of {} have {} bytes, but HDF5 makes none of 4 GiB",
                                join(chunk, "x"), bytes));
  }
  return chunk;
}

void expect_compact_size(const hdf5::Dataset& dataset, const std::string& name) {
  const hdf5::Space space(H5Dget_space(dataset.get()), "cannot get the shape of " + name);
  const auto elements = static_cast<std::uint64_t>(
      check(H5Sget_simple_extent_npoints(space.get()), "cannot get the shape of " + name));
  const std::uint64_t wanted = saturating_product(elements, element_bytes(dataset, name));
  const std::uint64_t stored = H5Dget_storage_size(dataset.get());
  if (stored == wanted) return;
  fail_as_damaged(name,
                  fmt::format("it is compact and has {} bytes for elements of {}", stored, wanted));
}

}  // namespace shardstream::io
