#include "io/hdf5/fill_value.hpp"

#include <algorithm>
#include <cstring>

namespace shardstream::io {
namespace {

using hdf5::check;

constexpr auto what = "cannot get the fill value of a data set";

bool is_defined(hid_t creation) {
  H5D_fill_value_t state{};
  check(H5Pfill_value_defined(creation, &state), what);
  return state != H5D_FILL_VALUE_UNDEFINED;
}

}  // namespace

std::vector<std::byte> stored_fill_value(const hdf5::Dataset& dataset) {
  const hdf5::Properties creation(H5Dget_create_plist(dataset.get()), what);
  const hdf5::Type type(H5Dget_type(dataset.get()), what);
  std::vector<std::byte> value(H5Tget_size(type.get()));
  if (!is_defined(creation.get())) return value;
  check(H5Pget_fill_value(creation.get(), type.get(), value.data()), what);
  return value;
}

bool is_fill_value_read(const hdf5::Dataset& dataset) {
  const hdf5::Properties creation(H5Dget_create_plist(dataset.get()), what);
  H5D_fill_time_t time{};
  check(H5Pget_fill_time(creation.get(), &time), what);
  const H5D_layout_t layout = check(H5Pget_layout(creation.get()), what);
  // Virtual data sets ignore the fill time.
  return is_defined(creation.get()) && (layout == H5D_VIRTUAL || time != H5D_FILL_TIME_NEVER);
}

void fill_elements(std::span<const std::byte> value, std::uint64_t count, std::byte* out) {
  const std::uint64_t bytes = count * value.size();
  if (std::ranges::all_of(value, [&](std::byte each) { return each == value[0]; })) {
    if (bytes > 0) std::memset(out, std::to_integer<int>(value[0]), bytes);
    return;
  }
  std::uint64_t done = std::min<std::uint64_t>(bytes, value.size());
  std::copy_n(value.begin(), done, out);
  for (; done < bytes; done += std::min(done, bytes - done)) {
    std::memcpy(out + done, out, std::min(done, bytes - done));
  }
}

}  // namespace shardstream::io
