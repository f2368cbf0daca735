#include "io/source/dataset/hdf5_transfer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "io/hdf5/fill_value.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

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
std::optional<std::string> Hdf5Transfer::read(const Extents& block_start, const Extents& block_step,
                                              const Extents& block_extent, std::byte* out) const {
  if (about_.fill_complaint && about_.may_have_gaps) return about_.fill_complaint;
  if (about_.allocation != Allocation::whole) {
    fill_elements(about_.fill, saturating_product(block_extent), out);
  }
  if (about_.allocation == Allocation::none) return std::nullopt;
  const std::vector<hsize_t> start(block_start.begin(), block_start.end());
  const std::vector<hsize_t> step(block_step.begin(), block_step.end());
  const std::vector<hsize_t> extent(block_extent.begin(), block_extent.end());
  const hdf5::AtWork at_work(about_.name, hdf5::Stage::reading);
  const hdf5::Lock lock;
  // With another rank than in the file, HDF5 would match the two spaces element by element.
  const hdf5::Space in_memory(
      H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr),
      "cannot make a data space");
  if (!about_.scalar) {
    check(H5Sselect_hyperslab(in_file_.get(), H5S_SELECT_SET, start.data(), step.data(),
                              extent.data(), nullptr),
          "cannot select a block of a data set");
  }
  if (H5Dread(dataset_.get(), in_memory_.get(), in_memory.get(), in_file_.get(),
              conversion_.properties(), out) >= 0) {
    return std::nullopt;
  }
  if (auto complaint = conversion_.complaint()) return complaint;
  throw Error(fmt::format(
      "cannot read the block at [{}] of {} of {}; its file may be damaged (HDF5: {}): "
      "copy or write it again",
      join(block_start, ", "), join(block_extent, "x"), about_.name, hdf5::Reasons().innermost()));
}

std::optional<std::string> Hdf5Transfer::convert(std::uint64_t count, std::byte* values) const {
  const hdf5::AtWork at_work(about_.name, hdf5::Stage::reading);
  const hdf5::Lock lock;
  if (H5Tconvert(number_.get(), native_type(about_.form.type), count, values, nullptr,
                 conversion_.properties()) >= 0) {
    return std::nullopt;
  }
  if (auto complaint = conversion_.complaint()) return complaint;
  throw Error(fmt::format("cannot convert elements of {} to {} (HDF5: {}): copy or write it again",
                          about_.name, name_of(about_.form.type), hdf5::Reasons().innermost()));
}

}  // namespace shardstream::io
