#include "io/hdf5/labelled_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <variant>

#include "core/error.hpp"
#include "core/utf8.hpp"
#include "io/hdf5/dimension_scales.hpp"
#include "io/hdf5/stored_type.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

using Texts = std::vector<std::string>;

hdf5::Dataset create(hid_t group, const std::string& name, hid_t type, const hdf5::Space& space) {
  return hdf5::Dataset(
      H5Dcreate2(group, name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      fmt::format("cannot create the data set '{}'", name));
}

hdf5::Space space_of(hsize_t extent, const std::string& name) {
  return hdf5::Space(H5Screate_simple(1, &extent, nullptr),
                     fmt::format("cannot make the space of '{}'", name));
}

void close(hdf5::Dataset& dataset, const std::string& name) {
  check(dataset.close(), fmt::format("cannot write the data set '{}'", name));
}

void write_fill_value(const hdf5::Dataset& dataset, const AttributeValue& value) {
  const hdf5::Type type(H5Dget_type(dataset.get()), "cannot get the type of a data set");
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    hdf5::write_attribute(dataset.get(), "_FillValue", *integer, type);
  } else {
    hdf5::write_attribute(dataset.get(), "_FillValue", std::get<double>(value), type);
  }
}

void write_attributes(const hdf5::Dataset& dataset, const Attributes& attributes) {
  for (const auto& [name, value] : attributes) {
    if (name == "_FillValue") {
      write_fill_value(dataset, value);
    } else {
      std::visit([&, &key = name](const auto& v) { hdf5::write_attribute(dataset.get(), key, v); },
                 value);
    }
  }
}

/// Its elements are never written, so it takes no space in the file.
void write_dimension(hid_t group, const LabelledData::Dimension& dimension) {
  hdf5::Dataset scale = create(group, dimension.name, native_type(ElementType::f32),
                               space_of(dimension.extent, dimension.name));
  make_extent_only(scale.get(), dimension.extent);
  close(scale, dimension.name);
}

/// Writes all elements of a data set, which have the type `type` in memory.
void write_values(const hdf5::Dataset& dataset, hid_t type, const void* values) {
  check(H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values),
        "cannot write a data set");
}

void write_values(const hdf5::Dataset& dataset, const std::vector<double>& values) {
  write_values(dataset, H5T_NATIVE_DOUBLE, values.data());
}

void write_values(const hdf5::Dataset& dataset, const std::vector<std::int64_t>& values) {
  write_values(dataset, H5T_NATIVE_INT64, values.data());
}

void write_values(const hdf5::Dataset& dataset, const Texts& values) {
  std::vector<std::string> in_utf8;
  for (const std::string& value : values) in_utf8.push_back(as_utf8(value));
  std::vector<const char*> texts;
  for (const std::string& value : in_utf8) texts.push_back(value.c_str());
  write_values(dataset, hdf5::text_type().get(), texts.data());
}

void write_array(hid_t group, const Array& array) {
  std::visit(
      [&](const auto& values) {
        expect(!array.dimension.empty() || values.size() == 1, "a scalar has one value");
        const hdf5::Space space = array.dimension.empty()
                                      ? hdf5::Space(H5Screate(H5S_SCALAR), "cannot make a space")
                                      : space_of(values.size(), array.name);
        const bool texts = std::is_same_v<decltype(values), const Texts&>;
        const hdf5::Type text = texts ? hdf5::text_type() : hdf5::Type();
        hdf5::Dataset dataset =
            create(group, array.name, texts ? text.get() : native_type(array.type), space);
        write_values(dataset, values);
        write_attributes(dataset, array.attributes);
        if (array.name == array.dimension) make_coordinates(dataset.get(), array.name);
        close(dataset, array.name);
      },
      array.values);
}

/// The bytes of the values, texts with the pointers to them.
std::uint64_t value_bytes(const Array& array) {
  constexpr std::uint64_t pointer = 16, smallest_text = 16;  // in a file
  const auto* const texts = std::get_if<Texts>(&array.values);
  if (texts == nullptr) {
    return sizeof(double) *
           std::visit([](const auto& values) { return values.size(); }, array.values);
  }
  std::uint64_t bytes = 0;
  for (const std::string& text : *texts) bytes += pointer + smallest_text + 8 + text.size();
  return bytes;
}

}  // namespace

void write_labelled(hid_t group, const LabelledData& data) {
  std::vector<NamedDimensions> named;
  for (const auto& dimension : data.dimensions) {
    const bool has_coordinates = std::ranges::any_of(data.arrays, [&](const Array& array) {
      return array.name == dimension.name && array.dimension == dimension.name;
    });
    if (!has_coordinates) write_dimension(group, dimension);
  }
  for (const Array& array : data.arrays) {
    write_array(group, array);
    const bool has_scale = !array.dimension.empty() && array.name != array.dimension;
    if (has_scale) named.push_back({array.name, {array.dimension}});
  }
  for (const auto& [name, dimensions, attributes] : data.existing) {
    const hdf5::Dataset dataset(H5Dopen2(group, name.c_str(), H5P_DEFAULT),
                                fmt::format("cannot open '{}'", name));
    write_attributes(dataset, attributes);
    if (!dimensions.empty()) named.push_back({name, dimensions});
  }
  attach_scales(group, named);
}

std::uint64_t bytes_of(const LabelledData& data) {
  constexpr std::uint64_t structure = 4096;  // of a data set, with its attributes
  std::uint64_t bytes = 0;
  for (const Array& array : data.arrays) bytes += structure + value_bytes(array);
  return bytes + structure * (data.dimensions.size() + data.existing.size());
}

}  // namespace shardstream::io
