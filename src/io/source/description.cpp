#include "io/source/description.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/hdf5/fill_value.hpp"
#include "io/hdf5/filters.hpp"
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

ElementType wanted_type(hid_t stored, std::optional<ElementType> requested,
                        const std::string& name) {
  const auto natural = natural_type(stored);
  if (!natural) {
    throw UsageError(
        fmt::format("{} holds {}: name a data set of integers or floating-point numbers", name,
                    describe_type(stored)));
  }
  if (!bits_fit(stored)) {
    throw UsageError(fmt::format(
        "{} is damaged (its type, {} in {} bytes, is impossible): copy or write it again", name,
        describe_type(stored), H5Tget_size(stored)));
  }
  const ElementType wanted = requested.value_or(*natural);
  H5T_cdata_t* plan = nullptr;
  if (H5Tequal(stored, native_type(wanted)) <= 0 &&
      H5Tfind(stored, native_type(wanted), &plan) == nullptr) {
    throw UsageError(fmt::format("HDF5 cannot convert {} of {} to {}: choose input.type = {}",
                                 describe_type(stored), name, name_of(wanted), name_of(*natural)));
  }
  return wanted;
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
  const std::size_t size = size_of(about.delivered);
  about.fill = stored_fill_value(dataset);
  about.fill.resize(std::max(about.fill.size(), size));  // it is converted in place
  const CheckedConversion conversion(stored, about.delivered);
  std::optional<std::string> complaint;
  if (H5Tconvert(stored, native_type(about.delivered), 1, about.fill.data(), nullptr,
                 conversion.properties()) < 0) {
    complaint = conversion.complaint().value_or("HDF5 cannot convert it");
  } else if (about.sign_differs) {
    complaint = sign_change(about.delivered, about.fill.data(), 0, 1);
  }
  about.fill.resize(size);
  if (complaint) {
    about.fill_complaint =
        fmt::format("the fill value of elements that were never written: {}", *complaint);
  }
}

}  // namespace

DatasetDescription describe(const hdf5::Dataset& dataset, const std::string& name,
                            std::optional<ElementType> requested) {
  const hdf5::Type stored(H5Dget_type(dataset.get()), "cannot get the type of " + name);
  const hdf5::Properties creation(H5Dget_create_plist(dataset.get()),
                                  "cannot get the layout of " + name);
  DatasetDescription about;
  about.name = name;
  about.wanted = wanted_type(stored.get(), requested, name);
  about.natural = *natural_type(stored.get());
  about.delivered = delivered_type(stored.get(), about.wanted);
  about.stored_as = describe_type(stored.get());
  about.stored_size = H5Tget_size(stored.get());
  about.converted = H5Tequal(stored.get(), native_type(about.wanted)) <= 0;
  about.order_differs = differs_in_byte_order(stored.get(), about.delivered);
  about.as_delivered =
      about.order_differs || H5Tequal(stored.get(), native_type(about.delivered)) > 0;
  about.sign_differs = differs_in_sign(stored.get(), about.delivered);
  about.shape = shape_of(dataset, name);
  about.scalar = about.shape.empty();
  if (about.scalar) about.shape = {1};
  about.stored_rows = about.shape[0];
  about.layout = check(H5Pget_layout(creation.get()), "cannot get the layout of " + name);
  about.box = about.layout == H5D_CHUNKED ? chunk_of(dataset, name) : about.shape;
  if (about.layout == H5D_COMPACT) expect_compact_size(dataset, name);
  about.filters = filters_of(creation.get(), name);
  about.stored_bytes = H5Dget_storage_size(dataset.get());
  about.allocation = allocation_of(dataset, about.layout, creation.get());
  describe_fill(dataset, stored.get(), about);
  return about;
}

void take_rows(DatasetDescription& about, std::uint64_t rows) {
  if (rows > about.stored_rows) {
    throw UsageError(fmt::format("input.rows is {}, but {} has {}: choose at most that many", rows,
                                 about.name, about.stored_rows));
  }
  about.shape[0] = rows;
  if (about.layout != H5D_CHUNKED) about.box = about.shape;
}

}  // namespace shardstream::io
