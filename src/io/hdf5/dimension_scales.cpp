#include "io/hdf5/dimension_scales.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <map>

namespace shardstream::io {
namespace {

using hdf5::check;

/// An element of a scale's attribute REFERENCE_LIST.
struct ScaleUse {
  hobj_ref_t dataset;
  unsigned dimension;
};

hobj_ref_t reference_to(hid_t group, const std::string& name) {
  hobj_ref_t reference{};
  check(H5Rcreate(&reference, group, name.c_str(), H5R_OBJECT, -1),
        fmt::format("cannot refer to '{}'", name));
  return reference;
}

hdf5::Dataset open_member(hid_t group, const std::string& name) {
  return hdf5::Dataset(H5Dopen2(group, name.c_str(), H5P_DEFAULT),
                       fmt::format("cannot open '{}'", name));
}

void write_list(hid_t dataset, const char* name, hid_t type, hsize_t count, const void* data) {
  const auto what = fmt::format("cannot write the attribute '{}'", name);
  const hdf5::Space space(H5Screate_simple(1, &count, nullptr), what);
  hdf5::Attribute attribute(H5Acreate2(dataset, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
                            what);
  check(H5Awrite(attribute.get(), type, data), what);
  check(attribute.close(), what);
}

/// The scales of each dimension: here exactly one.
void write_dimension_list(hid_t dataset, std::vector<hobj_ref_t> scales) {
  const hdf5::Type list(H5Tvlen_create(H5T_STD_REF_OBJ), "cannot make a type of references");
  std::vector<hvl_t> lists;
  for (hobj_ref_t& scale : scales) lists.push_back({1, &scale});
  write_list(dataset, "DIMENSION_LIST", list.get(), lists.size(), lists.data());
}

/// The dimensions that a scale is attached to.
void write_reference_list(hid_t scale, const std::vector<ScaleUse>& uses) {
  const hdf5::Type use(H5Tcreate(H5T_COMPOUND, sizeof(ScaleUse)),
                       "cannot make a type of references");
  check(H5Tinsert(use.get(), "dataset", offsetof(ScaleUse, dataset), H5T_STD_REF_OBJ),
        "cannot make a type of references");
  check(H5Tinsert(use.get(), "dimension", offsetof(ScaleUse, dimension), H5T_NATIVE_UINT),
        "cannot make a type of references");
  write_list(scale, "REFERENCE_LIST", use.get(), uses.size(), uses.data());
}

}  // namespace

void make_extent_only(hid_t dataset, std::uint64_t extent) {
  hdf5::write_fixed_attribute(dataset, "CLASS", "DIMENSION_SCALE");
  hdf5::write_fixed_attribute(dataset, "NAME", fmt::format("{}.{:10}", extent_only_name, extent));
}

void make_coordinates(hid_t dataset, const std::string& name) {
  hdf5::write_fixed_attribute(dataset, "CLASS", "DIMENSION_SCALE");
  hdf5::write_fixed_attribute(dataset, "NAME", name);
}

void attach_scales(hid_t group, std::span<const NamedDimensions> datasets) {
  std::map<std::string, std::vector<ScaleUse>> uses;
  for (const NamedDimensions& each : datasets) {
    const hobj_ref_t dataset = reference_to(group, each.dataset);
    std::vector<hobj_ref_t> scales;
    for (const std::string& name : each.names) {
      uses[name].push_back({dataset, static_cast<unsigned>(scales.size())});
      scales.push_back(reference_to(group, name));
    }
    write_dimension_list(open_member(group, each.dataset).get(), std::move(scales));
  }
  for (const auto& [name, of_scale] : uses) {
    write_reference_list(open_member(group, name).get(), of_scale);
  }
}

}  // namespace shardstream::io
