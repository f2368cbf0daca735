#include "io/hdf5/library_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "io/hdf5/describe.hpp"
#include "io/hdf5/fill_value.hpp"
#include "io/hdf5/stored_type.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

Allocation allocation_of(const hdf5::Dataset& dataset, Layout layout) {
  const hdf5::Properties creation(H5Dget_create_plist(dataset.get()),
                                  "cannot get the layout of a data set");
  const bool one_piece = layout == Layout::contiguous || layout == Layout::compact;
  if (layout == Layout::composed || H5Pget_external_count(creation.get()) > 0) {
    return Allocation::partly;
  }
  H5D_space_status_t status{};
  check(H5Dget_space_status(dataset.get(), &status), "cannot get the storage of a data set");
  if (status == H5D_SPACE_STATUS_NOT_ALLOCATED) return Allocation::none;
  return one_piece ? Allocation::whole : Allocation::partly;
}

/// Whether H5Dread converts the elements to native ones.
bool converts(const Description& about) {
  return about.form.by_library && about.member.empty();
}

}  // namespace

/// The HDF5 objects that all calls for one read of a source share. Creating them costs more than
/// reading a small chunk.
class Hdf5Data::Reader final : public LibraryReader {
 public:
  /// Needs the lock.
  explicit Reader(const Hdf5Data& of)
      : of_(of),
        about_(of.about_),
        stored_(H5Dget_type(of.dataset_.get()), "cannot get the type of " + about_.name),
        number_(number_type(element_of(stored_.get(), about_.member, about_.name).type.get())),
        in_memory_(H5Tcopy(converts(about_) ? native_type(about_.form.type) : stored_.get()),
                   "cannot copy the type of " + about_.name),
        number_size_(H5Tget_size(number_.get())),
        in_file_(H5Dget_space(of.dataset_.get()), "cannot get the shape of " + about_.name),
        conversion_(number_.get(), about_.form.type) {}

  std::optional<std::string> read(const Extents& start, const Extents& step, const Extents& extent,
                                  std::byte* out) const override;
  std::optional<std::string> convert(std::uint64_t count, std::byte* values) const override;
  std::uint64_t element_size() const override { return number_size_; }

 private:
  const Hdf5Data& of_;
  const Description& about_;
  hdf5::Type stored_, number_, in_memory_;
  std::uint64_t number_size_;
  hdf5::Space in_file_;
  CheckedConversion conversion_;
};

/// HDF5 leaves elements of `out` unchanged if they were never written and HDF5 does not deliver a
/// fill value for them (is_fill_value_read()). So the fill value is written to `out` first.
std::optional<std::string> Hdf5Data::Reader::read(const Extents& block_start,
                                                  const Extents& block_step,
                                                  const Extents& block_extent,
                                                  std::byte* out) const {
  if (of_.fill_complaint_ && about_.may_have_gaps) return of_.fill_complaint_;
  if (of_.allocation_ != Allocation::whole) {
    fill_elements(of_.fill_, saturating_product(block_extent), out);
  }
  if (of_.allocation_ == Allocation::none) return std::nullopt;
  const std::vector<hsize_t> start(block_start.begin(), block_start.end());
  const std::vector<hsize_t> step(block_step.begin(), block_step.end());
  const std::vector<hsize_t> extent(block_extent.begin(), block_extent.end());
  const hdf5::AtWork at_work(about_.name, hdf5::Stage::reading);
  const hdf5::Lock lock;
  // With another rank than in the file, HDF5 would match the two spaces element by element.
  const hdf5::Space in_memory(
      H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr),
      "cannot make a data space");
  if (!about_.dimensions.empty()) {
    check(H5Sselect_hyperslab(in_file_.get(), H5S_SELECT_SET, start.data(), step.data(),
                              extent.data(), nullptr),
          "cannot select a block of a data set");
  }
  if (H5Dread(of_.dataset_.get(), in_memory_.get(), in_memory.get(), in_file_.get(),
              conversion_.properties(), out) >= 0) {
    return std::nullopt;
  }
  if (auto complaint = conversion_.complaint()) return complaint;
  throw Error(fmt::format(
      "cannot read the block at [{}] of {} of {}; its file may be damaged (HDF5: {}): "
      "copy or write it again",
      join(block_start, ", "), join(block_extent, "x"), about_.name, hdf5::Reasons().innermost()));
}

std::optional<std::string> Hdf5Data::Reader::convert(std::uint64_t count, std::byte* values) const {
  const hdf5::AtWork at_work(about_.name, hdf5::Stage::reading);
  const hdf5::Lock lock;
  if (H5Tconvert(number_.get(), native_type(about_.form.type), count, values, nullptr,
                 conversion_.properties()) >= 0) {
    return std::nullopt;
  }
  if (auto complaint = conversion_.complaint()) return complaint;
  throw Error(fmt::format("cannot convert elements of {} to {} (HDF5: {}): copy or write it again",
                          about_.name, word_of(about_.form.type), hdf5::Reasons().innermost()));
}

Hdf5Data::Hdf5Data(hdf5::File file, hdf5::Dataset dataset, Description about)
    : file_(std::move(file)),
      dataset_(std::move(dataset)),
      about_(std::move(about)),
      allocation_(allocation_of(dataset_, about_.layout)),
      fill_(about_.fill) {
  if (!converts(about_)) return;
  const hdf5::Type stored(H5Dget_type(dataset_.get()), "cannot get the type of " + about_.name);
  convert_fill(stored.get());
}

Hdf5Data::~Hdf5Data() {
  const hdf5::AtWork at_work(about_.name, hdf5::Stage::reading);
  dataset_.close();
  file_.close();
}

void Hdf5Data::convert_fill(hid_t stored) {
  const std::size_t size = size_of(about_.form.type);
  fill_.resize(std::max(fill_.size(), size));  // it is converted in place
  const CheckedConversion conversion(stored, about_.form.type);
  if (H5Tconvert(stored, native_type(about_.form.type), 1, fill_.data(), nullptr,
                 conversion.properties()) < 0) {
    fill_complaint_ = fmt::format("the fill value of elements that were never written: {}",
                                  conversion.complaint().value_or("HDF5 cannot convert it"));
  }
  fill_.resize(size);
}

std::unique_ptr<const LibraryReader> Hdf5Data::start() const {
  const hdf5::AtWork at_work(about_.name, hdf5::Stage::reading);
  const hdf5::Lock lock;
  return std::make_unique<const Reader>(*this);
}

}  // namespace shardstream::io
