#include "io/source/joined/pattern.hpp"

#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

#include "core/error.hpp"
#include "io/description/dataset_name.hpp"

namespace shardstream::io {
namespace {

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// The files that match, in any order.
std::vector<std::string> glob_files(const std::string& pattern) {
  glob_t found{};
  const std::unique_ptr<glob_t, decltype(&::globfree)> owner(&found, ::globfree);
  // A folder that cannot be read might contain matching files. A missing one does not.
  const auto ends_search = [](const char*, int error) { return error == ENOENT ? 0 : 1; };
  const int error = ::glob(pattern.c_str(), GLOB_NOSORT, ends_search, &found);
  if (error == GLOB_NOSPACE) throw std::bad_alloc();
  if (error == GLOB_ABORTED) {
    throw UsageError(fmt::format(
        "a folder in which '{}' may have files cannot be read: check its permissions", pattern));
  }
  std::vector<std::string> files(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  std::erase_if(files, is_folder);
  return files;
}

}  // namespace

bool is_pattern(const std::string& file) {
  struct stat status {};
  return file.find_first_of("*?[") != std::string::npos && ::lstat(file.c_str(), &status) != 0;
}

std::vector<std::string> matching_files(const std::string& pattern) {
  std::vector<std::string> files = glob_files(pattern);
  if (files.empty()) {
    const std::size_t open = pattern.rfind('[');
    if (pattern.ends_with(']') && !glob_files(pattern.substr(0, open)).empty()) {
      fail_as_selection_of_file(pattern.substr(0, open), pattern.substr(open));
    }
    throw UsageError(fmt::format(
        "no file matches '{}': check the pattern, which is relative to the current folder (*, ? "
        "and [...] are wildcards, as in a shell)",
        pattern));
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace shardstream::io
