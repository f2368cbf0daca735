#include "io/hdf5/describe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "io/hdf5/attribute_content.hpp"
#include "io/hdf5/dimensions.hpp"
#include "io/hdf5/fill_value.hpp"
#include "io/hdf5/filters.hpp"
#include "io/hdf5/format.hpp"
#include "io/hdf5/lookup.hpp"
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
  if (form->by_library && H5Tfind(stored, native_type(form->type), &plan) == nullptr) {
    throw UsageError(fmt::format("HDF5 cannot convert {} of {}: name another data set",
                                 describe_type(stored), name));
  }
  return *form;
}

/// The position of the records in their file. Nothing if they are not contiguous there, were never
/// written (and have the fill value), or have a format that HDF5 must convert.
std::optional<std::uint64_t> offset_of_records(const hdf5::Dataset& dataset, hid_t creation,
                                               const Description& about) {
  const std::uint64_t bytes = saturating_product(about.shape) * about.record.size;
  if (about.layout != Layout::contiguous || !about.filters.empty() || about.form.by_library ||
      H5Pget_external_count(creation) != 0 || about.stored_bytes != bytes) {
    return std::nullopt;
  }
  const haddr_t offset = H5Dget_offset(dataset.get());
  std::error_code unknown;
  const std::uintmax_t end = std::filesystem::file_size(about.place.file, unknown);
  if (offset == HADDR_UNDEF || unknown || bytes > end || offset > end - bytes) return std::nullopt;
  return offset;
}

Layout layout_of(hid_t creation, const std::string& name) {
  switch (check(H5Pget_layout(creation), "cannot get the layout of " + name)) {
    case H5D_CONTIGUOUS:
      return Layout::contiguous;
    case H5D_CHUNKED:
      return Layout::chunked;
    case H5D_COMPACT:
      return Layout::compact;
    default:
      return Layout::composed;
  }
}

/// Sets the properties that depend on the layout.
void describe_storage(const hdf5::Dataset& dataset, hid_t creation, Description& about) {
  about.layout = layout_of(creation, about.name);
  about.box = about.layout == Layout::chunked ? chunk_of(dataset, about.name) : about.shape;
  if (about.layout == Layout::compact || about.layout == Layout::contiguous) {
    expect_stored_size(dataset, H5Pget_layout(creation), about.name);
  }
  about.filters = filters_of(creation, about.name);
  about.stored_bytes = H5Dget_storage_size(dataset.get());
  about.fill = stored_fill_value(dataset);
  about.place.file = file_of(dataset);
  about.place.offset = offset_of_records(dataset, creation, about);
  if (about.layout != Layout::chunked) return;
  unsigned options = 0;
  check(H5Pget_chunk_opts(creation, &options), "cannot get the layout of " + about.name);
  about.filters_edges = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) == 0;
  about.place.path = path_of(dataset);
}

}  // namespace

Member element_of(hid_t stored, const std::string& member, const std::string& name) {
  if (!member.empty()) return find_member(stored, member, name);
  return {0, hdf5::Type(H5Tcopy(stored), "cannot copy the type of " + name)};
}

Description describe(const hdf5::Dataset& dataset, const std::string& name,
                     const std::string& member, bool with_attributes) {
  const hdf5::Type stored(H5Dget_type(dataset.get()), "cannot get the type of " + name);
  const hdf5::Properties creation(H5Dget_create_plist(dataset.get()),
                                  "cannot get the layout of " + name);
  Description about{.format = &hdf5_format, .name = name, .member = member};
  const Member element = element_of(stored.get(), member, name);
  about.record = {H5Tget_size(stored.get()), element.offset};
  about.form = form_of(element.type.get(), name);
  about.stored_as = describe_type(element.type.get());
  about.shape = shape_of(dataset, name);
  if (about.shape.empty()) about.shape = {1};
  describe_storage(dataset, creation.get(), about);
  if (with_attributes) {
    about.attributes = convention_attributes_of(dataset, about.form.type);
  }
  about.dimensions = dimensions_of(dataset, name);
  about.units = attribute_content(dataset.get(), "units").text.value_or("");
  return about;
}

}  // namespace shardstream::io
