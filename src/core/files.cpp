#include "core/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"

namespace shardstream {
namespace {

std::string_view kind_of(mode_t mode) {
  return S_ISDIR(mode) ? "a folder" : special_kind(mode);
}

}  // namespace

std::string why_not_small(const Descriptor& file, std::uint64_t max_bytes) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return errno_text(errno);
  if (!S_ISREG(status.st_mode)) {
    return fmt::format("it is {}, not a regular file", kind_of(status.st_mode));
  }
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes <= max_bytes) return {};
  return fmt::format("it has {}, but at most {} are read", format_size(bytes),
                     format_size(max_bytes));
}

std::optional<std::string> read_small_file(const std::filesystem::path& path,
                                           std::uint64_t max_bytes) {
  const auto fail = [&](const std::string& why) {
    throw UsageError(
        fmt::format("'{}' cannot be read ({}): move it away, or restore it", path.string(), why));
  };
  const Descriptor file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    fail(errno_text(errno));
  }
  if (const std::string why = why_not_small(file, max_bytes); !why.empty()) fail(why);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail(errno_text(errno));
  std::string text(static_cast<std::size_t>(status.st_size), '\0');  // another process may append
  const auto got = file.read_at(0, reinterpret_cast<std::byte*>(text.data()), text.size());
  if (got < 0) fail(errno_text(errno));
  text.resize(static_cast<std::size_t>(got));
  return text;
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) {
    throw UsageError(
        fmt::format("the folder '{}' cannot be read ({}): name another one, or change its "
                    "permissions",
                    folder.string(), error.message()));
  }
  std::ranges::sort(names);
  return names;
}

std::string similar_path(const std::filesystem::path& path) {
  const auto full = path.has_filename() ? path : path.parent_path();  // "two/" is named "two"
  std::vector<std::string> found;
  std::error_code unreadable;
  const std::filesystem::path parent = full.has_parent_path() ? full.parent_path() : ".";
  for (std::filesystem::directory_iterator entry(parent, unreadable), end;
       !unreadable && entry != end; entry.increment(unreadable)) {
    std::string name = entry->path().filename().string();
    if (name != full.filename()) found.push_back(std::move(name));  // a link to nothing
  }
  std::ranges::sort(found);
  const std::string_view near = nearest(full.filename().string(), {found.begin(), found.end()});
  return near.empty() ? "" : did_you_mean(excerpt((full.parent_path() / near).string()));
}

}  // namespace shardstream
