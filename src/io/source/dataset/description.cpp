#include "io/source/dataset/description.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/hdf5/fill_value.hpp"
#include "io/hdf5/filters.hpp"
#include "io/hdf5/member.hpp"
#include "io/hdf5/stored_type.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

Extents shape_of(const hdf5::Dataset& dataset, const std::string& name) {
  const hdf5::Space space(H5Dget_space(dataset.get()), "cannot get the shape of " + name);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  Extents shape(static_cast<std::size_t>(std::max(rank, 0)));
  std::vector<hsize_t> extent(shape.size() + 1);
  check(H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr),
        "cannot get the shape of " + name);
  std::copy_n(extent.begin(), shape.size(), shape.begin());
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL ||
      std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    throw UsageError(fmt::format("{} has no elements: name a data set with at least one", name));
  }
  std::uint64_t room = std::numeric_limits<std::int64_t>::max();
  for (const auto e : shape) room /= e;
  if (room == 0) {
    throw UsageError(fmt::format("{} has 2^63 elements or more ({}): name a smaller one", name,
                                 join(shape, "x")));
  }
  return shape;
}

/// The form of the stored elements. Throws UsageError if they are no numbers, or damaged.
StoredForm form_of(hid_t stored, const std::string& name) {
  const auto form = stored_form(stored);
  if (!form) {
    throw UsageError(fmt::format("{} holds {}: {}", name, describe_type(stored),
                                 remedy_without_numbers(stored, name)));
  }
  if (!bits_fit(stored)) {
    throw UsageError(fmt::format(
        "{} is damaged (its type, {} in {} bytes, is impossible): copy or write it again", name,
        describe_type(stored), H5Tget_size(stored)));
  }
  H5T_cdata_t* plan = nullptr;
  if (form->by_hdf5 && H5Tfind(stored, native_type(form->type), &plan) == nullptr) {
    throw UsageError(fmt::format("HDF5 cannot convert {} of {}: name another data set",
                                 describe_type(stored), name));
  }
  return *form;
}

Allocation allocation_of(const hdf5::Dataset& dataset, H5D_layout_t layout, hid_t creation) {
  const bool one_piece = layout == H5D_CONTIGUOUS || layout == H5D_COMPACT;
  if (layout == H5D_VIRTUAL || H5Pget_external_count(creation) > 0) return Allocation::partly;
  H5D_space_status_t status{};
  check(H5Dget_space_status(dataset.get(), &status), "cannot get the storage of a data set");
  if (status == H5D_SPACE_STATUS_NOT_ALLOCATED) return Allocation::none;
  return one_piece ? Allocation::whole : Allocation::partly;
}

/// Sets about.fill and about.fill_complaint.
void describe_fill(const hdf5::Dataset& dataset, hid_t stored, DatasetDescription& about) {
  about.fill = stored_fill_value(dataset);
  if (!about.form.by_hdf5 || !about.member.empty()) return;
  const std::size_t size = size_of(about.form.type);
  about.fill.resize(std::max(about.fill.size(), size));  // it is converted in place
  const CheckedConversion conversion(stored, about.form.type);
  if (H5Tconvert(stored, native_type(about.form.type), 1, about.fill.data(), nullptr,
                 conversion.properties()) < 0) {
    about.fill_complaint = fmt::format("the fill value of elements that were never written: {}",
                                       conversion.complaint().value_or("HDF5 cannot convert it"));
  }
  about.fill.resize(size);
}

}  // namespace

Member element_of(hid_t stored, const std::string& member, const std::string& name) {
  if (!member.empty()) return find_member(stored, member, name);
  return {0, hdf5::Type(H5Tcopy(stored), "cannot copy the type of " + name)};
}

DatasetDescription describe(const hdf5::Dataset& dataset, const std::string& name,
                            const std::string& member) {
  const hdf5::Type stored(H5Dget_type(dataset.get()), "cannot get the type of " + name);
  const hdf5::Properties creation(H5Dget_create_plist(dataset.get()),
                                  "cannot get the layout of " + name);
  DatasetDescription about;
  about.name = name;
  about.stored_size = H5Tget_size(stored.get());
  about.member = member;
  const Member element = element_of(stored.get(), member, name);
  about.record = {about.stored_size, element.offset};
  about.form = form_of(element.type.get(), name);
  about.conversion.from = about.form.type;
  about.conversion.is_reversed = about.form.is_reversed;
  about.stored_as = describe_type(element.type.get());
  about.shape = shape_of(dataset, name);
  about.scalar = about.shape.empty();
  if (about.scalar) about.shape = {1};
  for (const std::uint64_t extent : about.shape) {
    about.dimensions.push_back({.name = {}, .extent = extent, .axis = {.count = extent}});
  }
  about.layout = check(H5Pget_layout(creation.get()), "cannot get the layout of " + name);
  about.box = about.layout == H5D_CHUNKED ? chunk_of(dataset, name) : about.shape;
  if (about.layout == H5D_COMPACT || about.layout == H5D_CONTIGUOUS) {
    expect_stored_size(dataset, about.layout, name);
  }
  about.filters = filters_of(creation.get(), name);
  about.stored_bytes = H5Dget_storage_size(dataset.get());
  about.allocation = allocation_of(dataset, about.layout, creation.get());
  describe_fill(dataset, stored.get(), about);
  return about;
}

void take_rows(std::vector<SourceDimension>& dimensions, std::uint64_t rows,
               const std::string& name) {
  const auto first = std::ranges::find(
      dimensions, false, [](const SourceDimension& dimension) { return dimension.axis.is_index; });
  const std::uint64_t all = first == dimensions.end() ? 1 : first->axis.count;
  if (rows > all) {
    throw UsageError(
        fmt::format("input.rows is {}, but {} has {}: choose at most that many", rows, name, all));
  }
  if (first != dimensions.end()) first->axis.count = rows;
}

}  // namespace shardstream::io
