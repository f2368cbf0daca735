#include "io/source/hdf5_transfer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/hdf5/fill_value.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

/// The space of a block in memory: dense if `pitch` is 0, else a rectangle whose rows have a pitch
/// of `pitch` elements.
hdf5::Space space_in_memory(const std::vector<hsize_t>& extent, hsize_t pitch) {
  const hsize_t width = extent.size() == 1 ? 1 : extent[1];
  if (pitch == 0 || pitch == width) {
    // With another rank than in the file, HDF5 would match the two spaces element by element.
    return hdf5::Space(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr),
                       "cannot make a data space");
  }
  const hsize_t all[] = {extent[0], pitch}, start[] = {0, 0}, part[] = {extent[0], width};
  hdf5::Space space(H5Screate_simple(2, all, nullptr), "cannot make a data space");
  check(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start, nullptr, part, nullptr),
        "cannot select a rectangle of memory");
  return space;
}

/// Writes `value` to each element of a block; `pitch` is as for read().
void fill_block(const Extents& extent, std::uint64_t pitch, const std::vector<std::byte>& value,
                std::byte* out) {
  const std::uint64_t width = row_major_strides(extent)[0];
  const std::uint64_t row_bytes = (pitch == 0 ? width : pitch) * value.size();
  for (std::uint64_t row = 0; row < extent[0]; ++row) {
    fill_elements(value, width, out + row * row_bytes);
  }
}

}  // namespace

Hdf5Transfer::Hdf5Transfer(const hdf5::Dataset& dataset, const DatasetDescription& about)
    : dataset_(dataset),
      about_(about),
      stored_(H5Dget_type(dataset.get()), "cannot get the type of " + about.name),
      number_(number_type(element_of(stored_.get(), about.member, about.name).type.get())),
      in_memory_(H5Tcopy(about.form.by_hdf5 && about.member.empty() ? native_type(about.form.type)
                                                                    : stored_.get()),
                 "cannot copy the type of " + about.name),
      number_size_(H5Tget_size(number_.get())),
      in_file_(H5Dget_space(dataset.get()), "cannot get the shape of " + about.name),
      conversion_(number_.get(), about.form.type) {}

/// HDF5 leaves elements of `out` unchanged if they were never written and HDF5 does not deliver a
/// fill value for them (is_fill_value_read()). So the fill value is written to `out` first.
std::optional<std::string> Hdf5Transfer::read(const Extents& block_start,
                                              const Extents& block_extent, std::uint64_t pitch,
                                              std::byte* out, const What& what) const {
  if (about_.fill_complaint && about_.may_have_gaps) return about_.fill_complaint;
  if (about_.allocation != Allocation::whole) fill_block(block_extent, pitch, about_.fill, out);
  if (about_.allocation == Allocation::none) return std::nullopt;
  const std::vector<hsize_t> start(block_start.begin(), block_start.end());
  const std::vector<hsize_t> extent(block_extent.begin(), block_extent.end());
  const hdf5::AtWork at_work(about_.name, hdf5::Stage::reading);
  const hdf5::Lock lock;
  const hdf5::Space in_memory = space_in_memory(extent, pitch);
  if (!about_.scalar) {
    check(H5Sselect_hyperslab(in_file_.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(),
                              nullptr),
          "cannot select a block of a data set");
  }
  if (H5Dread(dataset_.get(), in_memory_.get(), in_memory.get(), in_file_.get(),
              conversion_.properties(), out) >= 0) {
    return std::nullopt;
  }
  if (auto complaint = conversion_.complaint()) return complaint;
  throw Error(
      fmt::format("cannot read {} of {} (the block at [{}] of {}); its file may be damaged (HDF5: "
                  "{}): copy or write it again",
                  what(), about_.name, join(block_start, ", "), join(block_extent, "x"),
                  hdf5::Reasons().innermost()));
}

std::optional<std::string> Hdf5Transfer::convert(std::uint64_t count, std::byte* values,
                                                 const What& what) const {
  const hdf5::AtWork at_work(about_.name, hdf5::Stage::reading);
  const hdf5::Lock lock;
  if (H5Tconvert(number_.get(), native_type(about_.form.type), count, values, nullptr,
                 conversion_.properties()) >= 0) {
    return std::nullopt;
  }
  if (auto complaint = conversion_.complaint()) return complaint;
  throw Error(fmt::format("cannot convert {} of {} to {} (HDF5: {}): copy or write it again",
                          what(), about_.name, name_of(about_.form.type),
                          hdf5::Reasons().innermost()));
}

}  // namespace shardstream::io
