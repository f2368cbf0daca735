#include "io/hdf5/lookup.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "core/descriptor.hpp"
#include "core/units.hpp"
#include "io/hdf5/stored_type.hpp"

namespace shardstream::io {
namespace {

/// The limit of visited links: a file may have millions, but a message needs only a few.
constexpr std::size_t max_links_visited = 20'000;
constexpr std::size_t max_names_listed = 10;

/// FILE:/PATH if `name` is FILE/PATH, as if the file were a folder; else nothing.
std::string with_colon(const std::string& name) {
  for (auto slash = name.find('/', 1); slash != name.npos; slash = name.find('/', slash + 1)) {
    struct stat status {};
    const std::string file = name.substr(0, slash);
    if (::stat(file.c_str(), &status) != 0) return "";
    if (S_ISREG(status.st_mode)) return file + ":" + name.substr(slash);
  }
  return "";
}

void expect_readable_file(const std::string& name) {
  struct stat status {};
  if (::stat(name.c_str(), &status) != 0) {
    const int error = errno;
    if (error != ENOENT && error != ENOTDIR) {
      throw UsageError(fmt::format(
          "'{}' cannot be accessed ({}): check its path and the permissions of its folders", name,
          errno_text(error)));
    }
    if (const std::string meant = with_colon(name); !meant.empty()) {
      throw UsageError(fmt::format("there is no file '{}': did you mean '{}'?", name, meant));
    }
    const auto generator = nearest(name, {"uniform", "ramp"});
    throw UsageError(fmt::format("there is no file '{}': {}", name,
                                 generator.empty()
                                     ? "check the path, or name a generator (uniform, ramp)"
                                     : fmt::format("did you mean the generator {}?", generator)));
  }
  if (S_ISDIR(status.st_mode)) {
    throw UsageError(fmt::format("'{}' is a folder: name an HDF5 file in it", name));
  }
  if (!S_ISREG(status.st_mode)) {
    throw UsageError(fmt::format("'{}' is a pipe or device: name an HDF5 file", name));
  }
  const Descriptor file(name, O_RDONLY);
  if (!file.valid()) {
    throw UsageError(
        fmt::format("'{}' cannot be read ({}): change its permissions or name another file", name,
                    errno_text(errno)));
  }
  if (status.st_size == 0) {
    throw UsageError(fmt::format(
        "'{}' is an empty file (0 bytes), not HDF5: write it again or name another file", name));
  }
}

/// Reports a readable file that HDF5 could not open.
[[noreturn]] void fail_to_open(const std::string& name) {
  const hdf5::Reasons reasons;
  if (reasons.mention("unable to lock file")) {
    throw UsageError(fmt::format(
        "'{}' cannot be locked for reading ({}): wait for the program that writes it, or "
        "set HDF5_USE_FILE_LOCKING=FALSE if no program writes it",
        name, reasons.about("unable to lock file")));
  }
  if (reasons.mention("truncated file")) {
    throw UsageError(fmt::format("'{}' is truncated ({}): copy or write it again", name,
                                 reasons.about("truncated file")));
  }
  if (reasons.mention("file signature not found")) {
    throw UsageError(
        fmt::format("'{}' is not an HDF5 file (it has no HDF5 signature): name an HDF5 file, or "
                    "FILE:/PATH for a data set in one",
                    name));
  }
  throw UsageError(
      fmt::format("'{}' cannot be opened and may be damaged (HDF5: {}): copy or write it again",
                  name, reasons.innermost()));
}

struct Visit {
  const std::string& prefix;
  hdf5::Properties access = access_without_external_links();
  std::vector<std::string> found = {};
  std::size_t links = 0;
};

herr_t note_dataset(hid_t group, const char* path, const H5L_info_t* link, void* user) {
  auto& visit = *static_cast<Visit*>(user);
  if (++visit.links > max_links_visited) return 1;
  if (link->type != H5L_TYPE_HARD && link->type != H5L_TYPE_SOFT) return 0;
  const hdf5::Object object(H5Oopen(group, path, visit.access.get()));
  if (object.valid() && H5Iget_type(object.get()) == H5I_DATASET) {
    visit.found.push_back(visit.prefix + path);
  }
  return 0;
}

std::string joined(const std::vector<std::string>& names) {
  if (names.empty()) return "none";
  const auto listed = std::min(names.size(), max_names_listed);
  std::string text;
  for (std::size_t i = 0; i < listed; ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (listed < names.size()) text += fmt::format(" and {} more", names.size() - listed);
  return text;
}

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

/// Whether there is a link at `path`, even a broken one.
bool link_exists(hid_t file, const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    if (H5Lexists(file, path.substr(0, end).c_str(), H5P_DEFAULT) <= 0) return false;
    if (end == std::string::npos) return true;
  }
}

[[noreturn]] void fail_to_find(const hdf5::File& file, const std::string& name,
                               const std::string& path) {
  const std::string reason = hdf5::Reasons().innermost();
  if (link_exists(file.get(), path)) {
    throw UsageError(fmt::format(
        "'{}' in '{}' cannot be opened, since it is a broken link or damaged (HDF5: {}): "
        "name another data set",
        path, name, reason));
  }
  const auto paths = datasets_in(file.get(), name, "/");
  const auto near = meant(path, paths);
  throw UsageError(fmt::format(
      "there is no '{}' in '{}': {}", path, name,
      near.empty() ? "its data sets are " + joined(paths) : fmt::format("did you mean {}?", near)));
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

bool holds_numbers(const hdf5::File& file, const std::string& path) {
  const hdf5::Dataset dataset(H5Dopen2(file.get(), path.c_str(), H5P_DEFAULT));
  if (!dataset.valid()) return false;
  const hdf5::Type type(H5Dget_type(dataset.get()));
  const hdf5::Space space(H5Dget_space(dataset.get()));
  return type.valid() && space.valid() && natural_type(type.get()).has_value() &&
         H5Sget_simple_extent_npoints(space.get()) > 0;
}

}  // namespace

hdf5::File open_input_file(const std::filesystem::path& file) {
  const std::string name = file.string();
  expect_readable_file(name);
  const auto access = hdf5::posix_access(true);
  // As HDF5 opens the files of external links and virtual data sets: it takes this file for missing
  // if they lead back to it and the degrees differ.
  hdf5::check(H5Pset_fclose_degree(access.get(), H5F_CLOSE_WEAK),
              "cannot set how files are closed");
  hdf5::File opened(H5Fopen(name.c_str(), H5F_ACC_RDONLY, access.get()));
  if (!opened.valid()) fail_to_open(name);
  return opened;
}

std::vector<std::string> datasets_in(hid_t group, const std::string& name,
                                     const std::string& prefix) {
  Visit visit{prefix};
  if (H5Lvisit(group, H5_INDEX_NAME, H5_ITER_INC, note_dataset, &visit) < 0) {
    throw UsageError(
        fmt::format("the data sets of '{}' cannot be listed; it may be damaged (HDF5: {}): copy or "
                    "write it again",
                    name, hdf5::Reasons().innermost()));
  }
  return std::move(visit.found);
}

std::string only_dataset(const hdf5::File& file, const std::string& name) {
  const auto paths = datasets_in(file.get(), name, "/");
  if (paths.size() == 1) return paths.front();  // what is wrong with it, its opening will say
  std::vector<std::string> usable;
  std::copy_if(paths.begin(), paths.end(), std::back_inserter(usable),
               [&](const auto& path) { return holds_numbers(file, path); });
  if (usable.empty()) {
    throw UsageError(fmt::format("'{}' has no data set of numbers: name another file", name));
  }
  if (usable.size() > 1) {
    throw UsageError(fmt::format("'{}' has {} data sets: name one as {}:/PATH, of {}", name,
                                 usable.size(), name, joined(usable)));
  }
  return usable.front();
}

hdf5::Dataset open_dataset(const hdf5::File& file, const std::string& name, const std::string& path,
                           FollowedLinks& links) {
  hdf5::Object object(H5Oopen(file.get(), path.c_str(), links.access()));
  if (!object.valid()) {
    links.explain_failure();
    fail_to_find(file, name, path);
  }
  if (H5Iget_type(object.get()) == H5I_GROUP) {
    const auto paths = datasets_in(object.get(), name, path.back() == '/' ? path : path + '/');
    throw UsageError(fmt::format("'{}' in '{}' is a group: name one of its data sets: {}", path,
                                 name, joined(paths)));
  }
  if (H5Iget_type(object.get()) != H5I_DATASET) {
    throw UsageError(fmt::format("'{}' in '{}' is a named type: name a data set", path, name));
  }
  object.close();  // while a data set is open, it keeps the chunk cache that it was opened with
  return hdf5::Dataset(H5Dopen2(file.get(), path.c_str(), links.access()),
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

std::string path_of(const hdf5::Dataset& dataset) {
  constexpr auto what = "cannot get the path of a data set";
  std::string path = name_of_object(dataset.get());
  const hdf5::File file(H5Iget_file_id(dataset.get()), what);
  const hdf5::Properties access = access_without_external_links();
  const hdf5::Object there(H5Oopen(file.get(), path.c_str(), access.get()));
  if (there.valid() && is_same_object(there.get(), dataset.get())) return path;
  // A soft link to an external link: HDF5 gives the path in the file of the soft link. It searches
  // for the name of an object that was not opened by name.
  const hdf5::Object object = open_again(file.get(), dataset.get());
  return name_of_object(object.get());
}

}  // namespace shardstream::io
