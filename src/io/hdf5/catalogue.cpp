#include "io/hdf5/catalogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/hdf5/dimensions.hpp"
#include "io/hdf5/filters.hpp"
#include "io/hdf5/member.hpp"
#include "io/hdf5/netcdf.hpp"
#include "io/hdf5/referenced_files.hpp"
#include "io/hdf5/stored_type.hpp"

namespace shardstream::io {
namespace {

using Entry = Catalogue::Entry;
using Use = Catalogue::Use;

/// The limit of visited links: a file may have millions, but a message needs only a few.
constexpr std::size_t max_links_visited = 20'000;
constexpr std::size_t max_listed = 10;
constexpr std::size_t max_link_bytes = 16'384;

/// Whether a part of the path is internal to another program: MATLAB's #refs# and
/// #subsystem#, and PyTables's indices, _i_NAME.
bool is_internal(std::string_view path) {
  return std::ranges::any_of(split(path, '/'), [](std::string_view part) {
    return part.starts_with('#') || part.starts_with("_i_");
  });
}

/// Whether a type that is not a number contains numbers, such as those of h5py's complex numbers.
/// Records are tables.
bool holds_numbers(hid_t type) {
  const H5T_class_t kind = H5Tget_class(type);
  if (kind == H5T_COMPOUND) {
    return H5Tget_nmembers(type) == 2 && H5Tget_member_class(type, 0) == H5T_FLOAT &&
           H5Tget_member_class(type, 1) == H5T_FLOAT;
  }
  return kind != H5T_STRING && kind != H5T_REFERENCE && kind != H5T_OPAQUE;
}

Entry describe_unusual(hid_t type, std::string path) {
  Entry entry{std::move(path), holds_numbers(type) ? Use::numbers : Use::others,
              describe_type(type)};
  if (const auto members = numeric_members(type); !members.empty()) {
    entry.member = members.front();
    entry.remark += fmt::format(", for example {}{{{}}}", entry.path, entry.member);
  }
  return entry;
}

/// Describes a data set whose values can be computed: a dimension scale, or any other.
Entry describe_numbers(hid_t dataset, std::string path) {
  if (is_bare_dimension(dataset)) {
    return {std::move(path), Use::dimensions, "a dimension without a variable"};
  }
  if (!is_dimension_scale(dataset)) return {std::move(path), Use::computable};
  return {std::move(path), Use::coordinates, "coordinates"};
}

Entry describe(hid_t dataset, std::string path) {
  constexpr auto what = "cannot describe a data set";
  const hdf5::Type type(H5Dget_type(dataset), what);
  const hdf5::Space space(H5Dget_space(dataset), what);
  const hdf5::Properties creation(H5Dget_create_plist(dataset), what);
  if (H5Sget_simple_extent_npoints(space.get()) == 0) {
    return {std::move(path), Use::others, "no elements"};
  }
  if (!natural_type(type.get())) {
    return describe_unusual(type.get(), std::move(path));
  }
  if (const auto filter = missing_filter(creation.get())) {
    return {std::move(path), Use::numbers, fmt::format("filter {} is missing", *filter)};
  }
  return describe_numbers(dataset, std::move(path));
}

struct Visit {
  const std::string& prefix;
  hdf5::Properties access = access_without_external_links();
  std::vector<Entry> found = {};
  /// The paths of data sets that others name as their coordinates or the like, with a remark.
  std::map<std::string, std::string> coordinates = {};
  std::size_t links = 0;
  std::exception_ptr problem = {};
};

/// The remark on a link that leads to no object of this file.
std::string target_of(hid_t group, const char* path, const H5L_info_t& link) {
  std::string value(link.type == H5L_TYPE_HARD ? 0 : link.u.val_size, '\0');
  if (value.empty() || value.size() > max_link_bytes ||
      H5Lget_val(group, path, value.data(), value.size(), H5P_DEFAULT) < 0) {
    return "a link that cannot be followed";
  }
  if (link.type == H5L_TYPE_SOFT) return fmt::format("a broken link to {}", value.c_str());
  const char *file = nullptr, *object = nullptr;
  if (link.type == H5L_TYPE_EXTERNAL &&
      H5Lunpack_elink_val(value.data(), value.size(), nullptr, &file, &object) >= 0) {
    return fmt::format("a link to {}:{}", file, object);
  }
  return "a link of an unknown kind";
}

/// Adds the paths of the data sets that the one at `path` names in attributes of the CF
/// conventions.
void note_coordinates(hid_t dataset, const std::string& path,
                      std::map<std::string, std::string>& paths) {
  constexpr std::pair<const char*, const char*> attributes[] = {
      {"coordinates", "coordinates"},
      {"bounds", "coordinates"},
      {"climatology", "coordinates"},
      {"grid_mapping", "coordinates"},
      {"ancillary_variables", "ancillary"}};
  const std::string group = path.substr(0, path.rfind('/') + 1);
  for (const auto& [attribute, remark] : attributes) {
    const std::string text = hdf5::read_text_attribute(dataset, attribute);
    for (const std::string_view name : split(text, ' ')) {
      const std::string named = group + std::string(name);
      if (named != path) paths.emplace(named, remark);
    }
  }
}

/// Nothing if the link leads to a group or a named type.
std::optional<Entry> entry_of(hid_t group, const char* path, const H5L_info_t& link, Visit& visit) {
  std::string whole = visit.prefix + path;
  if (link.type != H5L_TYPE_HARD && link.type != H5L_TYPE_SOFT) {
    return Entry{std::move(whole), Use::unopened, target_of(group, path, link)};
  }
  const hdf5::Object object(H5Oopen(group, path, visit.access.get()));
  if (!object.valid()) {
    const std::string reason = hdf5::Reasons().innermost();
    return Entry{std::move(whole), Use::unopened,
                 link.type == H5L_TYPE_SOFT ? target_of(group, path, link) : reason};
  }
  if (H5Iget_type(object.get()) != H5I_DATASET) return std::nullopt;
  note_coordinates(object.get(), whole, visit.coordinates);
  return describe(object.get(), std::move(whole));
}

/// Called by HDF5 for each link. No exception may pass through HDF5.
herr_t note_link(hid_t group, const char* path, const H5L_info_t* link, void* user) {
  auto& visit = *static_cast<Visit*>(user);
  try {
    if (++visit.links > max_links_visited) return 1;
    if (is_internal(path)) return 0;
    try {
      if (auto entry = entry_of(group, path, *link, visit)) visit.found.push_back(*entry);
    } catch (const Error& error) {
      visit.found.push_back({visit.prefix + path, Use::unopened, error.what()});
    }
    return 0;
  } catch (...) {
    visit.problem = std::current_exception();
    return -1;
  }
}

/// Only for the entries that a message lists, since HDF5 may search the file for names of scales.
std::string shape_of(hid_t group, const Entry& entry, const Visit& visit) {
  if (entry.use != Use::computable && entry.use != Use::coordinates) return {};
  const std::string path =
      stored_path(group, entry.path.substr(visit.prefix.size()), visit.access.get());
  const hdf5::Dataset dataset(H5Oopen(group, path.c_str(), visit.access.get()));
  return dataset.valid() ? text_of(dimensions_of(dataset, entry.path)) : "";
}

/// Gives the variables of netCDF their names, in place of the dimensions with these names.
void take_netcdf_names(hid_t group, Visit& visit) {
  const auto visible = [&](const Entry& entry) {
    const std::string path = entry.path.substr(visit.prefix.size());
    return visit.prefix + netcdf_path(group, path, visit.access.get());
  };
  std::set<std::string> taken;
  for (const Entry& entry : visit.found) {
    if (const std::string path = visible(entry); path != entry.path) taken.insert(path);
  }
  std::erase_if(visit.found, [&](const Entry& entry) { return taken.contains(entry.path); });
  for (Entry& entry : visit.found) entry.path = visible(entry);
}

}  // namespace

Catalogue::Catalogue(hid_t group, const std::string& name, const std::string& prefix) {
  Visit visit{prefix};
  if (H5Lvisit(group, H5_INDEX_NAME, H5_ITER_INC, note_link, &visit) < 0) {
    if (visit.problem) std::rethrow_exception(visit.problem);
    throw UsageError(
        fmt::format("the data sets of '{}' cannot be listed; it may be damaged (HDF5: {}): copy or "
                    "write it again",
                    name, hdf5::Reasons().innermost()));
  }
  take_netcdf_names(group, visit);
  entries_ = std::move(visit.found);
  for (Entry& entry : entries_) {
    const auto found = visit.coordinates.find(entry.path);
    if (entry.use != Use::computable || found == visit.coordinates.end()) continue;
    entry.use = Use::coordinates;
    entry.remark = found->second;
  }
  is_complete_ = visit.links <= max_links_visited;
  std::ranges::stable_sort(entries_, {}, &Entry::use);
  for (Entry& entry : std::span(entries_).first(std::min(entries_.size(), max_listed))) {
    entry.shape = shape_of(group, entry, visit);
  }
}

std::string Catalogue::text() const {
  if (entries_.empty()) return "none";
  return join_first(entries_, max_listed, ", ", [](const Entry& entry) {
    const bool has_both = !entry.remark.empty() && !entry.shape.empty();
    const std::string remarks = entry.remark + (has_both ? ", " : "") + entry.shape;
    return remarks.empty() ? entry.path : fmt::format("{} ({})", entry.path, remarks);
  });
}

}  // namespace shardstream::io
