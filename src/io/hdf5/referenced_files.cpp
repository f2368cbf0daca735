#include "io/hdf5/referenced_files.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <system_error>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::io {
namespace {

namespace fs = std::filesystem;
using hdf5::check;

/// ${ORIGIN} at the start of a prefix stands for the folder of the file that names the other one.
fs::path with_origin(std::string_view prefix, const fs::path& folder) {
  constexpr std::string_view origin = "${ORIGIN}";
  if (!prefix.starts_with(origin)) return fs::path(prefix);
  return fs::path(folder.string() + std::string(prefix.substr(origin.size())));
}

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// In HDF5's order: H5F_prefix_open_file() for links and virtual data sets, H5D__efl_read() for
/// external storage.
std::vector<fs::path> candidates(ReferenceKind reference, const fs::path& file,
                                 const std::string& name) {
  const fs::path folder = fs::absolute(file).parent_path();
  fs::path wanted(name);
  if (reference == ReferenceKind::external_storage) {
    if (wanted.is_absolute()) return {wanted};
    return {with_origin(variable("HDF5_EXTFILE_PREFIX"), folder) / wanted};
  }
  std::vector<fs::path> places;
  if (wanted.is_absolute()) {
    places.push_back(wanted);
    wanted = wanted.filename();
  }
  const auto prefixes =
      variable(reference == ReferenceKind::external_link ? "HDF5_EXT_PREFIX" : "HDF5_VDS_PREFIX");
  for (const std::string_view prefix : split(prefixes, ':')) {
    if (!prefix.empty()) places.push_back(with_origin(prefix, folder) / wanted);
  }
  places.push_back(folder / wanted);
  places.push_back(wanted);
  std::error_code not_there;
  places.push_back(fs::canonical(file, not_there).parent_path() / wanted);
  return places;
}

}  // namespace

std::optional<fs::path> find_referenced(ReferenceKind reference, const fs::path& file,
                                        const std::string& name) {
  for (const fs::path& place : candidates(reference, file, name)) {
    if (const auto kind = special_kind(place); !kind.empty()) {
      throw UsageError(
          fmt::format("'{}' takes data from '{}', which is {}: name a data set whose bytes are in "
                      "regular files",
                      file.string(), place.string(), kind));
    }
    std::error_code not_there;
    if (!fs::is_regular_file(place, not_there)) continue;
    // HDF5 looks further if it cannot open a file as its own.
    if (reference == ReferenceKind::external_storage || H5Fis_hdf5(place.c_str()) > 0) return place;
  }
  return std::nullopt;
}

FollowedLinks::FollowedLinks(hdf5::Properties access) : access_(std::move(access)) {
  constexpr auto what = "cannot make data set properties";
  if (!access_.valid()) access_ = hdf5::Properties(H5Pcreate(H5P_DATASET_ACCESS), what);
  check(H5Pset_elink_cb(access_.get(), follow, this), what);
}

void FollowedLinks::explain_failure() const {
  if (problem_) std::rethrow_exception(problem_);
}

/// Called by HDF5 before it opens the file; a negative value ends the opening. No exception may
/// pass through HDF5.
herr_t FollowedLinks::follow(const char* parent_file, const char* parent_group,
                             const char* child_file, const char* child_object, unsigned*, hid_t,
                             void* self) {
  auto& links = *static_cast<FollowedLinks*>(self);
  try {
    links.follow(parent_file, parent_group, child_file, child_object);
    return 0;
  } catch (...) {
    links.problem_ = std::current_exception();
    return -1;
  }
}

void FollowedLinks::follow(const char* file, const char* group, const char* child,
                           const char* object) {
  const auto found = find_referenced(ReferenceKind::external_link, file, child);
  if (!found) {
    throw UsageError(
        fmt::format("an external link in the group '{}' of '{}' leads to '{}' in the file '{}', "
                    "which is missing or not HDF5: restore that file or name another data set",
                    group, file, object, child));
  }
  targets_.push_back({*found, object});
}

hdf5::Properties access_without_external_links() {
  constexpr auto what = "cannot make link properties";
  hdf5::Properties access(H5Pcreate(H5P_LINK_ACCESS), what);
  const auto refuse = [](const char*, const char*, const char*, const char*, unsigned*, hid_t,
                         void*) -> herr_t { return -1; };
  check(H5Pset_elink_cb(access.get(), refuse, nullptr), what);
  return access;
}

}  // namespace shardstream::io
