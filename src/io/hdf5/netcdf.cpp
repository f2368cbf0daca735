#include "io/hdf5/netcdf.hpp"

#include <algorithm>
#include <string_view>

#include "io/description/conventions.hpp"
#include "io/hdf5/dimensions.hpp"
#include "io/hdf5/stored_type.hpp"

namespace shardstream::io {
namespace {

/// netCDF puts this in front of the name of a variable whose name a dimension has taken.
constexpr std::string_view hidden_name = "_nc4_non_coord_";

std::size_t start_of_name(const std::string& path) {
  return path.rfind('/') + 1;  // 0 without a slash
}

std::string hidden_path(std::string path) {
  return path.insert(start_of_name(path), hidden_name);
}

bool has_any_attribute(hid_t object, std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [=](const char* name) { return H5Aexists(object, name) > 0; });
}

bool has_hidden_attribute(hid_t dataset) {
  return has_any_attribute(dataset, {"_Netcdf4Dimid", "_Netcdf4Coordinates"});
}

bool has_default_fill_value(const hdf5::Dataset& dataset, StoredType stored) {
  const auto number = default_fill_value(stored);
  const hdf5::Properties creation(H5Dget_create_plist(dataset.get()));
  H5D_fill_value_t state{};
  if (!number || H5Pfill_value_defined(creation.get(), &state) < 0 ||
      state != H5D_FILL_VALUE_USER_DEFINED) {
    return false;
  }
  std::uint64_t bits = 0;
  return H5Pget_fill_value(creation.get(), native_type(stored), &bits) >= 0 &&
         bits == bits_of(*number, stored);
}

}  // namespace

bool is_bare_dimension(hid_t dataset) {
  if (!is_extent_only(dataset)) return false;
  const hdf5::Type type(H5Dget_type(dataset));
  return type.valid() && H5Tget_class(type.get()) != H5T_COMPOUND;
}

bool link_exists(hid_t group, const std::string& path, hid_t access) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    if (H5Lexists(group, path.substr(0, end).c_str(), access) <= 0) return false;
    if (end == std::string::npos) return true;
  }
}

std::string stored_path(hid_t group, const std::string& path, hid_t access) {
  std::string hidden = hidden_path(path);
  if (!link_exists(group, hidden, access)) return path;
  const hdf5::Object object(H5Oopen(group, path.c_str(), access));
  const bool is_dimension =
      object.valid() && H5Iget_type(object.get()) == H5I_DATASET && is_bare_dimension(object.get());
  return is_dimension || !link_exists(group, path, access) ? hidden : path;
}

std::string netcdf_path(hid_t group, const std::string& path, hid_t access) {
  const std::size_t start = start_of_name(path);
  if (!std::string_view(path).substr(start).starts_with(hidden_name)) return path;
  std::string visible = path;
  visible.erase(start, hidden_name.size());
  return stored_path(group, visible, access) == path ? visible : path;
}

bool is_netcdf(const hdf5::Dataset& dataset, StoredType stored) {
  const hdf5::File file(H5Iget_file_id(dataset.get()), "cannot get the file of a data set");
  if (has_any_attribute(file.get(), {"_NCProperties", "_nc3_strict"}) ||
      has_hidden_attribute(dataset.get()) || has_default_fill_value(dataset, stored)) {
    return true;
  }
  return std::ranges::any_of(scales_of(dataset), [](const hdf5::Dataset& scale) {
    return has_hidden_attribute(scale.get()) || is_bare_dimension(scale.get());
  });
}

}  // namespace shardstream::io
