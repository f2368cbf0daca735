#include "io/hdf5/lookup.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"
#include "io/hdf5/catalogue.hpp"
#include "io/hdf5/lzf.hpp"
#include "io/hdf5/netcdf.hpp"
#include "io/hdf5/object_header.hpp"
#include "io/hdf5/result_file.hpp"
#include "io/hdf5/unreadable_file.hpp"

namespace shardstream::io {
namespace {

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

/// The path that the user probably meant: similar as a whole, or in its last part.
std::string_view meant(const std::string& path, const std::vector<std::string>& paths) {
  const std::vector<std::string_view> whole(paths.begin(), paths.end());
  if (const auto near = nearest(path, whole); !near.empty()) return near;
  std::vector<std::string_view> parts;
  for (const auto& candidate : whole) parts.push_back(last_part(candidate));
  const auto near = nearest(last_part(path), parts);
  if (near.empty()) return {};
  const auto index = std::find(parts.begin(), parts.end(), near) - parts.begin();
  return whole[static_cast<std::size_t>(index)];
}

/// The paths of data, which a user may have meant.
std::vector<std::string> paths_of(const Catalogue& catalogue) {
  std::vector<std::string> paths;
  for (const auto& entry : catalogue.entries()) {
    if (entry.use != Catalogue::Use::dimensions) paths.push_back(entry.path);
  }
  return paths;
}

/// Throws UsageError if the path does not exist, but the part of it before a '[', so that a
/// selection was meant.
void expect_no_brackets(const hdf5::File& file, const DatasetName& name) {
  const std::string& path = name.path;
  const std::size_t open = path.rfind('[');
  if (open == std::string::npos || open < 2 || link_exists(file.get(), path) ||
      !link_exists(file.get(), path.substr(0, open))) {
    return;
  }
  const std::string before = path.substr(0, open), selection = path.substr(open);
  if (name.selection && name.selection->find(']') != std::string::npos) {
    throw UsageError(fmt::format(
        "the selection {} after '{}' has a list of positions: write an index (5) or a range, with "
        "a step if it has one (0:90, 0:90:2), or write the listed elements to another data set",
        excerpt(fmt::format("{}[{}]", selection, *name.selection)), before));
  }
  if (!path.ends_with(']')) {
    throw UsageError(
        fmt::format("the selection {} after '{}' does not end in ']': write {}[SELECTION]",
                    excerpt(selection), before, before));
  }
  if (name.selection) {
    throw UsageError(fmt::format(
        "two selections, {} and {}, follow '{}': write one that has an item for each dimension, as "
        "in [0:3, 5]",
        excerpt(selection), excerpt(fmt::format("[{}]", *name.selection)), before));
  }
  throw UsageError(
      fmt::format("the selection {} after '{}' is before a member: write the member of a compound "
                  "type first (PATH{{MEMBER}}[SELECTION])",
                  excerpt(selection), before));
}

[[noreturn]] void fail_to_find(const hdf5::File& file, const std::string& name,
                               const std::string& path) {
  const hdf5::Reasons reasons;
  const auto newer = newer_format(reasons);
  if (link_exists(file.get(), path)) {
    if (has_native_complex_numbers(file, name, path)) {
      throw UsageError(fmt::format(
          "'{}' in '{}' has complex numbers in the form of HDF5 2.0, which HDF5 {} cannot read: "
          "write their real and imaginary parts as two data sets",
          path, name, hdf5_version()));
    }
    if (newer) {
      throw UsageError(fmt::format("'{}' in '{}' cannot be opened: {}", path, name, *newer));
    }
    throw UsageError(fmt::format(
        "'{}' in '{}' cannot be opened, since it is a broken link or damaged (HDF5: {}): "
        "name another data set",
        path, name, reasons.innermost()));
  }
  const Catalogue catalogue(file.get(), name, "/");
  const auto paths = paths_of(catalogue);
  const auto near = meant(path, paths);
  throw UsageError(fmt::format("there is no '{}' in '{}': {}", path, name,
                               near.empty() ? "its data sets are " + catalogue.text()
                                            : fmt::format("did you mean {}?", near)));
}

[[noreturn]] void fail_as_dimension(const hdf5::File& file, const std::string& name,
                                    const std::string& path) {
  throw UsageError(fmt::format(
      "'{}' in '{}' is a dimension of netCDF without a variable, so it has no values: name a "
      "variable (the data sets are {})",
      path, name, Catalogue(file.get(), name, "/").text()));
}

[[noreturn]] void fail_without_data(const std::string& name, const Catalogue& catalogue) {
  const auto& all = catalogue.entries();
  const auto table = std::ranges::find_if(all, [](const auto& each) { return each.member != ""; });
  throw UsageError(fmt::format(
      "'{}' has no data set of numbers that can be used (its data sets are {}): name {}", name,
      catalogue.text(),
      table == all.end() ? "another file"
                         : fmt::format("a member of a table, such as {}:{}{{{}}}", name,
                                       table->path, table->member)));
}

/// The path by which HDF5 has reached an object.
std::string name_of_object(hid_t object) {
  constexpr auto what = "cannot get the path of a data set";
  const auto length = hdf5::check(H5Iget_name(object, nullptr, 0), what);
  std::string path(static_cast<std::size_t>(length) + 1, '\0');
  hdf5::check(H5Iget_name(object, path.data(), path.size()), what);
  path.pop_back();
  return path;
}

#if H5_VERSION_GE(1, 12, 0)
H5O_info2_t info_of(hid_t object) {
  H5O_info2_t info{};
  hdf5::check(H5Oget_info3(object, &info, H5O_INFO_BASIC), "cannot identify an object");
  return info;
}

bool is_same_object(hid_t a, hid_t b) {
  const H5O_info2_t one = info_of(a), other = info_of(b);
  int order = 0;
  hdf5::check(H5Otoken_cmp(a, &one.token, &other.token, &order), "cannot compare objects");
  return one.fileno == other.fileno && order == 0;
}

/// Opens an object of the file by its address.
hdf5::Object open_again(hid_t file, hid_t object) {
  return hdf5::Object(H5Oopen_by_token(file, info_of(object).token), "cannot open an object again");
}
#else
H5O_info_t info_of(hid_t object) {
  H5O_info_t info{};
  hdf5::check(H5Oget_info(object, &info), "cannot identify an object");
  return info;
}

bool is_same_object(hid_t a, hid_t b) {
  const H5O_info_t one = info_of(a), other = info_of(b);
  return one.fileno == other.fileno && one.addr == other.addr;
}

/// Opens an object of the file by its address.
hdf5::Object open_again(hid_t file, hid_t object) {
  return hdf5::Object(H5Oopen_by_addr(file, info_of(object).addr), "cannot open an object again");
}
#endif

}  // namespace

hdf5::File open_input_file(const std::filesystem::path& file) {
  const std::string name = file.string();
  expect_regular_file(name);
  register_lzf();
  const auto access = hdf5::posix_access(hdf5::FileLocking::on);
  // HDF5 opens the files of external links and virtual data sets with this degree. If these lead
  // back to this file and the degrees differ, HDF5 treats the file as missing.
  hdf5::check(H5Pset_fclose_degree(access.get(), H5F_CLOSE_WEAK),
              "cannot set how files are closed");
  hdf5::File opened(H5Fopen(name.c_str(), H5F_ACC_RDONLY, access.get()));
  if (!opened.valid()) fail_to_open(name);
  return opened;
}

std::string only_dataset(const hdf5::File& file, const std::string& name) {
  using Use = Catalogue::Use;
  using Entry = Catalogue::Entry;
  const Catalogue catalogue(file.get(), name, "/");
  const auto& all = catalogue.entries();
  const bool is_complete = catalogue.is_complete();
  if (all.size() == 1 && is_complete) return all.front().path;  // opening it reports any problem
  // The user may have meant any data set, but not Use::others (tables, strings, no elements), nor
  // coordinates if there are data.
  const auto count = [&](Use last) {
    return std::ranges::count_if(
        all, [=](Use use) { return use <= last; }, &Entry::use);
  };
  const auto data = count(Use::unopened), possible = data > 0 ? data : count(Use::coordinates);
  if (possible == 0 || all.front().use == Use::numbers || all.front().use == Use::unopened) {
    fail_without_data(name, catalogue);
  }
  if (possible == 1 && is_complete) return all.front().path;
  throw UsageError(fmt::format("'{}' {}: name a data set as {}:/PATH (its data sets are {})", name,
                               is_complete ? fmt::format("has {} data sets", all.size())
                                           : "has too many objects to find its only data set",
                               name, catalogue.text()));
}

namespace {

/// The parts of `name` as `file` means them, with the path of HDF5.
DatasetName resolve_parts(const hdf5::File& file, const DatasetName& name,
                          const hdf5::Properties& access) {
  // The brackets of a data set in another file belong to its path only there.
  const auto exists = [&](const std::string& path) {
    return link_exists(file.get(), stored_path(file.get(), path, access.get()), access.get());
  };
  if (const std::string whole = name.within_file(); name.selection && exists(whole)) {
    return {name.file, whole, ""};
  }
  if (const std::string path = name.path_and_member(); !name.member.empty() && exists(path)) {
    return {name.file, path, "", name.selection};
  }
  expect_no_brackets(file, name);
  return name;
}

}  // namespace

DatasetName resolve_braces(const hdf5::File& file, const DatasetName& name) {
  const hdf5::Properties access = access_without_external_links();
  DatasetName resolved = resolve_parts(file, name, access);
  resolved.path = netcdf_path(file.get(), resolved.path, access.get());
  return resolved;
}

hdf5::Dataset open_dataset(const hdf5::File& file, const std::string& name, const std::string& path,
                           FollowedLinks& links) {
  const std::string stored = stored_path(file.get(), path, links.access());
  hdf5::Object object(H5Oopen(file.get(), stored.c_str(), links.access()));
  if (!object.valid()) {
    links.explain_failure();
    fail_to_find(file, name, path);
  }
  if (H5Iget_type(object.get()) == H5I_GROUP) {
    const Catalogue catalogue(object.get(), name, path.back() == '/' ? path : path + '/');
    throw UsageError(fmt::format("'{}' in '{}' is a group: name one of its data sets: {}", path,
                                 name, catalogue.text()));
  }
  if (H5Iget_type(object.get()) != H5I_DATASET) {
    throw UsageError(fmt::format("'{}' in '{}' is a named type: name a data set", path, name));
  }
  if (is_bare_dimension(object.get())) fail_as_dimension(file, name, path);
  object.close();  // while a data set is open, it keeps the chunk cache that it was opened with
  return hdf5::Dataset(H5Dopen2(file.get(), stored.c_str(), links.access()),
                       fmt::format("cannot open '{}' in '{}'", path, name));
}

hdf5::Dataset open_dataset(const hdf5::File& file, const std::string& name,
                           const std::string& path) {
  FollowedLinks links;
  return open_dataset(file, name, path, links);
}

bool has_dataset(const std::filesystem::path& file, const std::string& path) {
  const hdf5::File opened = open_input_file(file);
  FollowedLinks links;
  return hdf5::Dataset(H5Dopen2(opened.get(), path.c_str(), links.access())).valid();
}

std::string file_of(const hdf5::Dataset& dataset) {
  const auto length =
      hdf5::check(H5Fget_name(dataset.get(), nullptr, 0), "cannot get a file's name");
  std::string name(static_cast<std::size_t>(length) + 1, '\0');
  hdf5::check(H5Fget_name(dataset.get(), name.data(), name.size()), "cannot get a file's name");
  name.pop_back();
  return name;
}

hdf5::Dataset dataset_within(hid_t file, const std::string& path) {
  const hdf5::Properties access = access_without_external_links();
  const hdf5::Object there(H5Oopen(file, path.c_str(), access.get()));
  if (!there.valid() || H5Iget_type(there.get()) != H5I_DATASET) return {};
  H5Iinc_ref(there.get());
  return hdf5::Dataset(there.get());
}

bool leads_to(hid_t file, const std::string& path, hid_t object) {
  const hdf5::Properties access = access_without_external_links();
  const hdf5::Object there(H5Oopen(file, path.c_str(), access.get()));
  return there.valid() && is_same_object(there.get(), object);
}

std::string path_of(const hdf5::Dataset& dataset) {
  constexpr auto what = "cannot get the path of a data set";
  std::string path = name_of_object(dataset.get());
  const hdf5::File file(H5Iget_file_id(dataset.get()), what);
  if (leads_to(file.get(), path, dataset.get())) return path;
  // For a soft link to an external link, HDF5 returns the path in the file of the soft link. For an
  // object that was not opened by name, HDF5 searches for a name.
  const hdf5::Object object = open_again(file.get(), dataset.get());
  return name_of_object(object.get());
}

}  // namespace shardstream::io
