#include "study_folder/folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <regex>
#include <span>
#include <string_view>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/text.hpp"
#include "core/uuid.hpp"
#include "study_folder/attempts.hpp"
#include "study_folder/names.hpp"

namespace shardstream::study_folder {
namespace {

namespace fs = std::filesystem;

constexpr const char* remedy = "move it away, or name another folder with -o";
constexpr std::string_view part_start = ".study.ini.", part_end = ".part";

enum class Kind { none, regular, other };

/// The kind of file that has this name. Does not follow a link.
Kind kind_of(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return Kind::none;
  return S_ISREG(status.st_mode) ? Kind::regular : Kind::other;
}

/// Whether a file with this name may be there before study.ini: `scale` creates it earlier, or a
/// command of `scale --list` has, which somebody has started.
bool may_precede_study(const std::string& name) {
  static const std::regex launch(
      R"((calibration|p[0-9]+-r[0-9]+|p[0-9]+-timeline)(\.h5|\.trace\.json))");
  return name == logs_name || name == lock_name ||
         (name.starts_with(part_start) && name.ends_with(part_end)) ||
         std::regex_match(name, launch);
}

}  // namespace

StudyFolder::StudyFolder(fs::path path) : path_(std::move(path)) {
  for (const char* const name : {"{workload}", "{ranks}", "{jobid}"}) {
    if (path_.string().find(name) == std::string::npos) continue;
    throw UsageError(
        fmt::format("output.file: '{}' contains {}, which every run replaces in the path of its "
                    "result: name another folder with -o",
                    path_.string(), name));
  }
}

void StudyFolder::check() const {
  std::error_code error;
  const fs::file_type type = fs::status(path_, error).type();
  if (type == fs::file_type::not_found) return;
  if (error) {
    throw UsageError(
        fmt::format("output.file: '{}' cannot be reached ({}): name another folder "
                    "with -o",
                    path_.string(), error.message()));
  }
  if (type != fs::file_type::directory) {
    throw UsageError(
        fmt::format("output.file: '{}' is a file, but a study needs a folder: name a new folder "
                    "with -o",
                    path_.string()));
  }
}

/// Throws UsageError unless there is no study.ini, or `scale` has written it.
void StudyFolder::expect_own_options() const {
  const fs::path path = path_ / ini_name;
  const Kind kind = kind_of(path);
  if (kind == Kind::none || (kind == Kind::regular && is_own_ini(path_))) return;
  throw UsageError(fmt::format("output.file: '{}' is not a file that scale has written: {}",
                               path.string(), remedy));
}

void StudyFolder::expect_only_study() const {
  if (has_study()) {
    if (!has_results()) expect_own_options();
    return;
  }
  if (kind_of(path_) == Kind::none) return;
  if (std::ranges::all_of(names_in(path_), may_precede_study)) return;
  throw UsageError(
      fmt::format("output.file: '{}' is a folder with other files but no study: name a new folder",
                  path_.string()));
}

bool StudyFolder::has_study() const {
  return kind_of(path_ / ini_name) != Kind::none;
}

bool StudyFolder::has_results() const {
  if (!has_study()) return false;
  return std::ranges::any_of(
      names_in(path_), [](const std::string& name) { return fs::path(name).extension() == ".h5"; });
}

void StudyFolder::create() const {
  std::error_code error;
  fs::create_directories(path_ / logs_name, error);
  if (!error) return;
  throw UsageError(
      fmt::format("output.file: cannot create the folder '{}' ({}): name another folder with -o",
                  (path_ / logs_name).string(), error.message()));
}

void StudyFolder::write_options(const OptionList& chosen, const std::string& name) const {
  expect_own_options();
  const fs::path path = path_ / ini_name;
  const fs::path part = path_ / fmt::format("{}{}{}", part_start, random_uuid(), part_end);
  Descriptor file(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
  const std::string text = ini_text(chosen, name);
  const bool is_written =
      file.valid() && file.write_at(0, std::as_bytes(std::span(text))) && file.close();
  if (is_written && ::rename(part.c_str(), path.c_str()) == 0) return;
  const int error = errno;
  ::unlink(part.c_str());
  throw UsageError(fmt::format(
      "output.file: cannot write '{}' ({}): check its permissions and its disk, or name another "
      "folder with -o",
      path.string(), errno_text(error)));
}

void StudyFolder::remove_attempts() const {
  const fs::path path = path_ / attempts_name;
  if (kind_of(path) == Kind::none) return;
  if (kind_of(path) == Kind::other) {
    throw UsageError(
        fmt::format("output.file: '{}' is not a regular file: {}", path.string(), remedy));
  }
  read_attempts(path_);
  if (::unlink(path.c_str()) == 0) return;
  throw UsageError(fmt::format("output.file: cannot remove '{}' ({}): {}", path.string(),
                               errno_text(errno), remedy));
}

fs::path StudyFolder::new_log(const std::string& launch, std::uint64_t attempt) const {
  constexpr unsigned mode = 0666;
  for (std::uint64_t number = attempt; true; ++number) {
    const fs::path path = path_ / logs_name / fmt::format("{}-a{}.log", launch, number);
    const Descriptor file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    if (file.valid()) return path;
    if (errno == EEXIST) continue;
    throw Error(fmt::format("cannot create '{}' ({}): check its permissions and its disk",
                            path.string(), errno_text(errno)));
  }
}

}  // namespace shardstream::study_folder
