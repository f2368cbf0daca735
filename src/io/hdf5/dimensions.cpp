#include "io/hdf5/dimensions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/utf8.hpp"
#include "io/description/conventions.hpp"
#include "io/hdf5/attribute_content.hpp"
#include "io/hdf5/dimension_scales.hpp"
#include "io/hdf5/lookup.hpp"
#include "io/hdf5/stored_type.hpp"
#include "kernels/data/convert.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

/// The maximum size of a label of fixed length.
constexpr std::size_t max_label = 4096;

std::vector<std::uint64_t> extents_of(hid_t dataset, const std::string& what) {
  const hdf5::Space space(H5Dget_space(dataset), what);
  std::vector<hsize_t> extents(H5S_MAX_RANK);
  const int rank = check(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), what);
  return {extents.begin(), extents.begin() + rank};
}

/// The attribute `name` and its type, if it has one element per dimension; else the type is not
/// valid.
std::pair<hdf5::Attribute, hdf5::Type> attribute_per_dimension(hid_t dataset, const char* name,
                                                               std::size_t rank) {
  if (H5Aexists(dataset, name) <= 0) return {};
  hdf5::Attribute attribute(H5Aopen(dataset, name, H5P_DEFAULT));
  if (!attribute.valid()) return {};
  const hdf5::Space space(H5Aget_space(attribute.get()));
  if (H5Sget_simple_extent_npoints(space.get()) != static_cast<hssize_t>(rank)) return {};
  hdf5::Type type(H5Aget_type(attribute.get()));
  return {std::move(attribute), std::move(type)};
}

/// Frees the memory of variable length in `values`, which HDF5 has read.
void free_elements(const hdf5::Attribute& attribute, const hdf5::Type& type, void* values) {
  const hdf5::Space space(H5Aget_space(attribute.get()));
  H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, values);
}

/// The scale of one dimension, or an owner that is not valid. A dimension may have several scales;
/// as in netCDF, the first one counts.
hdf5::Dataset referenced_scale(hid_t dataset, std::size_t dimension, std::size_t rank) {
  const auto [attribute, stored] = attribute_per_dimension(dataset, "DIMENSION_LIST", rank);
  if (!stored.valid() || H5Tget_class(stored.get()) != H5T_VLEN) return {};
  const hdf5::Type reference(H5Tget_super(stored.get()));
  if (H5Tequal(reference.get(), H5T_STD_REF_OBJ) <= 0) return {};
  const hdf5::Type list(H5Tvlen_create(H5T_STD_REF_OBJ));
  std::vector<hvl_t> lists(rank);
  if (H5Aread(attribute.get(), list.get(), lists.data()) < 0) return {};
  hid_t found = H5I_INVALID_HID;
  if (const hvl_t& all = lists[dimension]; all.len > 0 && all.p != nullptr) {
    found = H5Rdereference2(dataset, H5P_DEFAULT, H5R_OBJECT, all.p);
  }
  free_elements(attribute, list, lists.data());
  if (found >= 0 && H5Iget_type(found) == H5I_DATASET) return hdf5::Dataset(found);
  const hdf5::Object other(found);  // closes it
  return {};
}

hdf5::Dataset scale_of(const hdf5::Dataset& dataset, std::size_t dimension, std::size_t rank) {
  if (rank == 1 && is_dimension_scale(dataset.get())) {
    H5Iinc_ref(dataset.get());
    return hdf5::Dataset(dataset.get());
  }
  return referenced_scale(dataset.get(), dimension, rank);
}

/// The path of an object; empty if HDF5 finds none.
std::string hdf5_path(hid_t object) {
  const auto length = H5Iget_name(object, nullptr, 0);
  if (length <= 0) return {};
  std::string path(static_cast<std::size_t>(length) + 1, '\0');
  H5Iget_name(object, path.data(), path.size());
  path.pop_back();
  return path;
}

std::string last_part(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

/// The last part of the path of a scale. HDF5 would search the whole file for it, so the place of
/// netCDF's coordinates is tried first: the group of the data set, or one above it.
std::string name_of_scale(hid_t dataset, hid_t scale) {
  std::string name = is_extent_only(scale) ? "" : hdf5::read_text_attribute(scale, "NAME");
  name = last_part(name);
  const hdf5::File file(H5Iget_file_id(scale));
  std::string group = name.empty() ? "" : hdf5_path(dataset);
  while (!group.empty()) {
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
    if (leads_to(file.get(), group + '/' + name, scale)) return name;
  }
  const std::string path = hdf5_path(scale);
  return path.empty() ? name : last_part(path);
}

/// One text per dimension, or none.
std::vector<std::string> labels_of(hid_t dataset, std::size_t rank) {
  const auto [attribute, type] = attribute_per_dimension(dataset, "DIMENSION_LABELS", rank);
  if (!type.valid() || H5Tget_class(type.get()) != H5T_STRING) return {};
  std::vector<std::string> labels;
  if (H5Tis_variable_str(type.get()) > 0) {
    std::vector<char*> texts(rank);
    if (H5Aread(attribute.get(), type.get(), texts.data()) < 0) return {};
    for (const char* const text : texts) labels.emplace_back(text == nullptr ? "" : text);
    free_elements(attribute, type, texts.data());
    return labels;
  }
  const std::size_t size = H5Tget_size(type.get());
  if (size > max_label) return {};
  std::string texts(rank * size, '\0');
  if (H5Aread(attribute.get(), type.get(), texts.data()) < 0) return {};
  for (std::size_t d = 0; d < rank; ++d) {
    const std::string_view text = std::string_view(texts).substr(d * size, size);
    labels.emplace_back(text.substr(0, text.find('\0')));
  }
  return labels;
}

/// Whether the data set takes its values from other files.
bool needs_other_files(hid_t dataset) {
  const hdf5::Properties creation(H5Dget_create_plist(dataset));
  return !creation.valid() || H5Pget_layout(creation.get()) == H5D_VIRTUAL ||
         H5Pget_external_count(creation.get()) > 0;
}

/// Whether a data set has numbers for a dimension of `extent` elements: one for each, or, if
/// `columns` is not 0, so many. The layout is checked first, since HDF5 opens the sources of a
/// virtual data set to get its shape.
bool has_numbers(hid_t dataset, std::uint64_t extent, std::uint64_t columns = 0) {
  if (extent > max_coordinates || is_extent_only(dataset) || needs_other_files(dataset)) {
    return false;
  }
  const hdf5::Space space(H5Dget_space(dataset));
  const hdf5::Type type(H5Dget_type(dataset));
  const int rank = columns > 0 ? 2 : 1;
  if (H5Sget_simple_extent_ndims(space.get()) != rank || !type.valid()) return false;
  hsize_t shape[2] = {0, columns};
  H5Sget_simple_extent_dims(space.get(), shape, nullptr);
  return shape[1] == columns && shape[0] > 0 && shape[0] >= extent && stored_form(type.get()) &&
         bits_fit(number_type(type.get()).get());
}

/// libhdf5 crashes if it reads data sets with impossible layouts.
void expect_sound_layout(const hdf5::Dataset& scale, const std::string& name) {
  const hdf5::Properties creation(H5Dget_create_plist(scale.get()),
                                  "cannot get the layout of " + name);
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  if (layout == H5D_CHUNKED) {
    chunk_of(scale, name);
  } else {
    expect_stored_size(scale, layout, name);
  }
}

/// The first `rows` elements of a data set of one dimension, or rows of one with two, as `form` has
/// them.
std::vector<std::byte> read_first(const hdf5::Dataset& dataset, const StoredForm& form,
                                  std::uint64_t rows, const std::string& name) {
  const hdf5::Type stored(H5Dget_type(dataset.get()));
  const hid_t memory = form.by_library ? native_type(form.type) : stored.get();
  std::vector<hsize_t> count;
  for (const std::uint64_t extent : extents_of(dataset.get(), "cannot get the shape of " + name)) {
    count.push_back(extent);
  }
  count[0] = rows;
  const std::uint64_t elements = rows * (count.size() > 1 ? count[1] : 1);
  std::vector<std::byte> bytes(elements * size_of(form.type));
  const std::vector<hsize_t> first(count.size());
  const hdf5::Space file(H5Dget_space(dataset.get())),
      slots(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr));
  if (H5Sselect_hyperslab(file.get(), H5S_SELECT_SET, first.data(), nullptr, count.data(),
                          nullptr) < 0 ||
      H5Dread(dataset.get(), memory, slots.get(), file.get(), H5P_DEFAULT, bytes.data()) < 0) {
    throw UsageError(
        fmt::format("{} cannot be read (HDF5: {}): copy the file again, or select "
                    "elements by their positions",
                    name, hdf5::Reasons().innermost()));
  }
  return bytes;
}

/// Numbers as their conventions mean them; missing ones are NaN.
struct MeantNumbers {
  ElementType type;  ///< in the file, after unpacking
  std::vector<double> values;
};

/// The numbers of read_first(). Throws UsageError if they cannot be read.
MeantNumbers read_numbers(const hdf5::Dataset& dataset, std::uint64_t rows,
                          const std::string& name) {
  expect_sound_layout(dataset, name);
  const hdf5::Type type(H5Dget_type(dataset.get()));
  const StoredForm form = stored_form(type.get()).value();
  const Conventions conventions =
      conventions_of(convention_attributes_of(dataset, form.type), form.type, name);
  const Conversion conversion{.from = conventions.type,
                              .is_reversed = form.is_reversed,
                              .to = ElementType::f64,
                              .missing = conventions.missing,
                              .unpacking = conventions.unpacking};
  const auto stored = read_first(dataset, form, rows, name);
  MeantNumbers found{unpacked_type(conventions.unpacking).value_or(natural_type(conventions.type)),
                     std::vector<double>(stored.size() / size_of(form.type))};
  convert(conversion, stored.data(), found.values.size(),
          reinterpret_cast<std::byte*>(found.values.data()));
  return found;
}

/// The data set with the bounds of a scale: `name` in the group of the scale, or in one above it.
/// Not valid if there is none.
hdf5::Dataset bounds_named(const hdf5::Dataset& scale, const std::string& name) {
  const hdf5::File file(H5Iget_file_id(scale.get()));
  std::string group = hdf5_path(scale.get());
  while (!group.empty() && !name.starts_with('/')) {
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
    if (auto found = dataset_within(file.get(), group + '/' + name); found.valid()) return found;
  }
  return name.starts_with('/') ? dataset_within(file.get(), name) : hdf5::Dataset();
}

/// Adds the texts of these attributes that exist.
void add_texts(hid_t object, std::initializer_list<const char*> names,
               std::vector<std::pair<std::string, std::string>>& to) {
  for (const char* const name : names) {
    const auto text = attribute_content(object, name).text;
    if (text && !text->empty()) to.emplace_back(name, *text);
  }
}

}  // namespace

std::vector<hdf5::Dataset> scales_of(const hdf5::Dataset& dataset) {
  std::vector<hdf5::Dataset> scales;
  const std::size_t rank = extents_of(dataset.get(), "cannot get the shape of a data set").size();
  for (std::size_t d = 0; d < rank; ++d) {
    if (auto scale = scale_of(dataset, d, rank); scale.valid()) scales.push_back(std::move(scale));
  }
  return scales;
}

bool is_dimension_scale(hid_t dataset) {
  return hdf5::read_text_attribute(dataset, "CLASS") == "DIMENSION_SCALE";
}

bool is_extent_only(hid_t scale) {
  return hdf5::read_text_attribute(scale, "NAME").starts_with(extent_only_name);
}

std::vector<Dimension> dimensions_of(const hdf5::Dataset& dataset, const std::string& name) {
  std::vector<Dimension> dimensions;
  for (const auto extent : extents_of(dataset.get(), "cannot get the shape of " + name)) {
    dimensions.push_back({"", extent, false});
  }
  const std::size_t rank = dimensions.size();
  const auto labels = labels_of(dataset.get(), rank);
  for (std::size_t d = 0; d < rank; ++d) {
    Dimension& dimension = dimensions[d];
    if (const auto scale = scale_of(dataset, d, rank); scale.valid()) {
      dimension.name = name_of_scale(dataset.get(), scale.get());
      dimension.has_coordinates = has_numbers(scale.get(), dimension.extent);
    }
    if (dimension.name.empty() && !labels.empty()) dimension.name = labels[d];
    dimension.is_latin1 = !is_utf8(dimension.name);
    dimension.name = as_utf8(dimension.name);
  }
  return dimensions;
}

std::optional<Coordinates> read_coordinates(const hdf5::Dataset& dataset, std::size_t dimension,
                                            const std::string& name) {
  const auto extents = extents_of(dataset.get(), "cannot get the shape of " + name);
  expect(dimension < extents.size(), "coordinates belong to a dimension of the data set");
  const std::uint64_t extent = extents[dimension];
  const hdf5::Dataset scale = scale_of(dataset, dimension, extents.size());
  if (!scale.valid() || !has_numbers(scale.get(), extent)) return std::nullopt;
  Coordinates found{as_utf8(name_of_scale(dataset.get(), scale.get())), {}, {}, {}};
  auto [type, values] = read_numbers(
      scale, extent, fmt::format("the coordinates '{}' of {}", printable(found.name), name));
  found.type = type;
  found.values = std::move(values);
  add_texts(scale.get(), {"units", "calendar", "long_name", "standard_name", "axis"},
            found.attributes);
  return found;
}

std::optional<Bounds> read_bounds(const hdf5::Dataset& dataset, std::size_t dimension,
                                  const std::string& name) {
  const auto extents = extents_of(dataset.get(), "cannot get the shape of " + name);
  expect(dimension < extents.size(), "bounds belong to a dimension of the data set");
  const hdf5::Dataset scale = scale_of(dataset, dimension, extents.size());
  const auto named = scale.valid() ? attribute_content(scale.get(), "bounds").text : std::nullopt;
  if (!named || trim(*named).empty()) return std::nullopt;
  Bounds bounds{std::string(trim(*named)), {}, {}, {}};
  const hdf5::Dataset found = bounds_named(scale, bounds.name);
  const std::uint64_t extent = extents[dimension];
  if (!found.valid()) {
    bounds.problem = "there is no such data set";
  } else if (!has_numbers(found.get(), extent, 2)) {
    bounds.problem = fmt::format("they are not {} x 2 numbers", extent);
  } else {
    bounds.values = read_numbers(found, extent,
                                 fmt::format("the bounds '{}' of {}", printable(bounds.name), name))
                        .values;
    add_texts(found.get(), {"units", "calendar"}, bounds.attributes);
  }
  return bounds;
}

}  // namespace shardstream::io
