#include "io/hdf5/attribute_content.hpp"

#include <algorithm>
#include <cstdint>

#include "core/text.hpp"
#include "core/utf8.hpp"
#include "io/description/conventions.hpp"
#include "io/description/value_attributes.hpp"
#include "io/hdf5/netcdf.hpp"
#include "io/hdf5/stored_type.hpp"

namespace shardstream::io {
namespace {

/// Larger attributes are not read.
constexpr std::size_t max_bytes = 4096;

/// Reads `count` numbers of type `stored`, whose base type is `base`, as `native`, the type of T in
/// memory.
template <class T>
std::vector<Number> read(hid_t attribute, hid_t stored, hid_t base, std::size_t count,
                         hid_t native) {
  static_assert(sizeof(T) == 8);
  const std::size_t size = std::max(H5Tget_size(stored), sizeof(T));
  if (count > max_bytes / size) return {};
  std::vector<T> values(count * size / sizeof(T) + 1);
  // HDF5 does not convert enumerations, so the numbers are read as they are stored.
  if (H5Aread(attribute, stored, values.data()) < 0 ||
      H5Tconvert(base, native, count, values.data(), nullptr, H5P_DEFAULT) < 0) {
    return {};
  }
  return {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count)};
}

void read_numbers(hid_t attribute, hid_t stored, std::size_t count, AttributeContent& content) {
  const hdf5::Type base(H5Tget_class(stored) == H5T_ENUM ? H5Tget_super(stored) : H5Tcopy(stored));
  if (!base.valid()) return;
  const H5T_class_t kind = H5Tget_class(base.get());
  if ((kind != H5T_INTEGER && kind != H5T_FLOAT) || !bits_fit(base.get())) return;
  if (kind == H5T_FLOAT) {
    content.is_f32 = H5Tget_size(base.get()) == sizeof(float);
    content.numbers = read<double>(attribute, stored, base.get(), count, H5T_NATIVE_DOUBLE);
  } else if (H5Tget_size(base.get()) > sizeof(std::uint64_t)) {
    return;
  } else if (H5Tget_sign(base.get()) == H5T_SGN_NONE) {
    content.numbers = read<std::uint64_t>(attribute, stored, base.get(), count, H5T_NATIVE_UINT64);
  } else {
    content.numbers = read<std::int64_t>(attribute, stored, base.get(), count, H5T_NATIVE_INT64);
  }
}

Signedness signedness_of(hid_t stored) {
  if (H5Tget_class(stored) != H5T_INTEGER) return Signedness::others;
  return H5Tget_sign(stored) == H5T_SGN_NONE ? Signedness::without_sign : Signedness::with_sign;
}

}  // namespace

AttributeContent attribute_content(hid_t object, const std::string& name) {
  AttributeContent content;
  const hdf5::Attribute attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT));
  if (!attribute.valid()) return content;
  const hdf5::Space space(H5Aget_space(attribute.get()));
  const hdf5::Type type(H5Aget_type(attribute.get()));
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  if (!type.valid() || count < 0) return content;
  if (H5Tget_class(type.get()) == H5T_STRING) {
    const bool is_short = H5Tis_variable_str(type.get()) > 0 || H5Tget_size(type.get()) < max_bytes;
    content.text = is_short ? as_utf8(hdf5::read_text_attribute(object, name)) : "";
  } else {
    read_numbers(attribute.get(), type.get(), static_cast<std::size_t>(count), content);
  }
  return content;
}

DatasetAttributes convention_attributes_of(const hdf5::Dataset& dataset, StoredType stored) {
  DatasetAttributes found;
  const hdf5::Type type(H5Dget_type(dataset.get()), "cannot get the type of a data set");
  if (H5Tget_class(type.get()) == H5T_COMPOUND) return found;
  for (const char* const name : convention_attributes) {
    const htri_t exists = H5Aexists(dataset.get(), name);
    if (exists < 0) {
      found.problem = "HDF5: " + hdf5::Reasons().innermost();
      return found;
    }
    if (exists > 0) found.contents.emplace(name, attribute_content(dataset.get(), name));
  }
  found.by_netcdf = is_netcdf(dataset, stored);
  return found;
}

std::vector<std::string> value_attributes(const hdf5::Dataset& dataset) {
  const hdf5::Type stored(H5Dget_type(dataset.get()), "cannot get the type of a data set");
  std::vector<std::string> found;
  for (const std::string& name : hdf5::attribute_names(dataset.get())) {
    if (value_meaning(name) && may_change_values(name, attribute_content(dataset.get(), name),
                                                 signedness_of(stored.get()))) {
      found.push_back(printable(name));
    }
  }
  return found;
}

}  // namespace shardstream::io
