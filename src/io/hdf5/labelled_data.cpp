#include "io/hdf5/labelled_data.hpp"

#include <fmt/format.h>

#include <type_traits>

#include "core/error.hpp"
#include "io/hdf5/dimension_scales.hpp"
#include "io/hdf5/stored_type.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

hdf5::Dataset create(hid_t group, const std::string& name, ElementType type, hsize_t extent) {
  const auto what = fmt::format("cannot create the data set '{}'", name);
  const hdf5::Space space(H5Screate_simple(1, &extent, nullptr), what);
  return hdf5::Dataset(H5Dcreate2(group, name.c_str(), native_type(type), space.get(), H5P_DEFAULT,
                                  H5P_DEFAULT, H5P_DEFAULT),
                       what);
}

void close(hdf5::Dataset& dataset, const std::string& name) {
  check(dataset.close(), fmt::format("cannot write the data set '{}'", name));
}

void write_attributes(hid_t object, const Attributes& attributes) {
  for (const auto& [name, value] : attributes) {
    std::visit([&](const auto& v) { hdf5::write_attribute(object, name, v); }, value);
  }
}

/// Its elements are never written, so it takes no space in the file.
void write_dimension(hid_t group, const LabelledData::Dimension& dimension) {
  hdf5::Dataset scale = create(group, dimension.name, ElementType::f32, dimension.extent);
  make_extent_only(scale.get(), dimension.extent);
  close(scale, dimension.name);
}

void write_array(hid_t group, const Array& array) {
  std::visit(
      [&](const auto& values) {
        const bool integers = std::is_same_v<decltype(values), const std::vector<std::int64_t>&>;
        hdf5::Dataset dataset = create(group, array.name, array.type, values.size());
        check(H5Dwrite(dataset.get(), integers ? H5T_NATIVE_INT64 : H5T_NATIVE_DOUBLE, H5S_ALL,
                       H5S_ALL, H5P_DEFAULT, values.data()),
              fmt::format("cannot write the data set '{}'", array.name));
        write_attributes(dataset.get(), array.attributes);
        close(dataset, array.name);
      },
      array.values);
}

}  // namespace

void write_labelled(hid_t group, const LabelledData& data) {
  std::vector<NamedDimensions> named;
  for (const auto& dimension : data.dimensions) write_dimension(group, dimension);
  for (const Array& array : data.arrays) {
    write_array(group, array);
    named.push_back({array.name, {array.dimension}});
  }
  for (const auto& [name, dimensions, attributes] : data.existing) {
    const hdf5::Dataset dataset(H5Dopen2(group, name.c_str(), H5P_DEFAULT),
                                fmt::format("cannot open '{}'", name));
    write_attributes(dataset.get(), attributes);
    named.push_back({name, dimensions});
  }
  attach_scales(group, named);
}

std::uint64_t bytes_of(const LabelledData& data) {
  constexpr std::uint64_t structure = 4096;  // of a data set, with its attributes
  std::uint64_t bytes = 0;
  for (const Array& array : data.arrays) {
    bytes +=
        structure +
        std::visit([](const auto& values) { return values.size(); }, array.values) * sizeof(double);
  }
  return bytes + structure * (data.dimensions.size() + data.existing.size());
}

}  // namespace shardstream::io
