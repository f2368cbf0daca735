#include "io/output/temporary_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <optional>

#include "core/byte_lock.hpp"
#include "core/units.hpp"
#include "io/output/contents.hpp"

namespace shardstream::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view part_end = ".part", journal_end = ".checkpoint";
/// The second name of a part file, which exists for a moment while it is published.
constexpr std::string_view published_mark = "-published";
constexpr std::size_t checksum_length = 17;  // of a journal's line: 16 digits and a blank

fs::path file_in_folder_of(const fs::path& path, const std::string& name) {
  return (path.has_parent_path() ? path.parent_path() : fs::path(".")) / name;
}

/// "12345678-1234-1234-1234-123456789abc", in lower case.
bool is_uuid(std::string_view text) {
  constexpr std::string_view form = "00000000-0000-0000-0000-000000000000";
  return text.size() == form.size() && std::ranges::equal(text, form, [](char c, char wanted) {
           return wanted == '-' ? c == '-' : (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::optional<std::uint64_t> rank_of(std::string_view digits) {
  constexpr std::size_t max_digits = 9;
  if (digits.empty() || digits.size() > max_digits) return std::nullopt;
  if (digits.size() > 1 && digits[0] == '0') return std::nullopt;
  std::uint64_t rank = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    rank = rank * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return rank;
}

/// `middle` is the part between `.NAME.` and the suffix of a file name.
std::optional<TemporaryFile> parse(std::string_view middle, std::string_view end) {
  constexpr std::size_t length = 36;
  if (middle.size() < length || !is_uuid(middle.substr(0, length))) return std::nullopt;
  TemporaryFile file{.path = {}, .uuid = std::string(middle.substr(0, length)), .kind = {}};
  const std::string_view rest = middle.substr(length);
  if (end == part_end) {
    file.kind = TemporaryFile::Kind::part;
    return rest.empty() || rest == published_mark ? std::optional(file) : std::nullopt;
  }
  file.kind = TemporaryFile::Kind::journal;
  const auto rank = rest.starts_with('.') ? rank_of(rest.substr(1)) : std::nullopt;
  if (!rank) return std::nullopt;
  file.rank = *rank;
  return file;
}

// ---------------------------------------------------------------- locks

/// The byte is far after the contents. HDF5, which may lock the file with flock() through its own
/// descriptor, neither sees nor releases a lock on it.
constexpr Bytes writer_byte{std::numeric_limits<off_t>::max() - 1, 1};

OpenedTemporaryFile::Writer take_lock(const Descriptor& file) {
  using Writer = OpenedTemporaryFile::Writer;
  const int error = change_lock(file, writer_byte, F_WRLCK);
  if (error == 0) return Writer::gone;
  return error == EAGAIN || error == EACCES ? Writer::alive : Writer::unknown;
}

OpenedTemporaryFile::Writer look_at_lock(const Descriptor& file) {
  using Writer = OpenedTemporaryFile::Writer;
  const auto locked = is_locked(file, writer_byte);
  if (!locked) return Writer::unknown;
  return *locked ? Writer::alive : Writer::gone;
}

// ---------------------------------------------------------------- the owner

/// A part file begins like HDF5 or a text file of this program. After a killed writer, it may also
/// be empty or begin with a hole.
bool begins_as_part(std::string_view start) {
  constexpr std::string_view hdf5 = "\211HDF\r\n\032\n";
  return start.empty() || start.starts_with('\0') || start.starts_with(hdf5) ||
         std::ranges::any_of(text_marks,
                             [&](const TextMark& mark) { return start.starts_with(mark.start); });
}

/// The first line of a journal may be incomplete.
bool begins_as_journal(std::string_view start, const TemporaryFile& file) {
  if (start.empty() || start.starts_with('\0')) return true;
  const std::string expected = journal_start(file.uuid, file.rank);
  const std::string_view checksum = start.substr(0, checksum_length);
  if (checksum.find_first_not_of("0123456789abcdef") < checksum_length - 1) return false;
  start.remove_prefix(checksum.size());
  return std::string_view(expected).starts_with(start.substr(0, expected.size()));
}

/// The reason why an opened file does not belong to a run of this user, or "".
std::string problem_of(const TemporaryFile& file, const Descriptor& opened) {
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0) return "cannot be examined";
  if (!S_ISREG(status.st_mode)) return "is no regular file";
  if (status.st_uid != ::geteuid()) return "belongs to another user";
  const bool is_journal = file.kind == TemporaryFile::Kind::journal;
  if (is_journal && (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return "is writable by other users";
  }
  if (is_journal && static_cast<std::uint64_t>(status.st_size) > max_journal_bytes) {
    return fmt::format("is larger than {}", format_size(max_journal_bytes));
  }
  std::array<char, max_text_mark> start{};
  const auto got = opened.read_at(0, reinterpret_cast<std::byte*>(start.data()), start.size());
  if (got < 0) return "cannot be read";
  const std::string_view text(start.data(), static_cast<std::size_t>(got));
  const bool fits = is_journal ? begins_as_journal(text, file) : begins_as_part(text);
  return fits ? "" : "does not begin like a file of a run";
}

std::string why_not_opened(int error) {
  if (error == ELOOP) return "is a symbolic link";
  return fmt::format("cannot be opened ({})", errno_text(error));
}

}  // namespace

fs::path part_path_of(const fs::path& path, const std::string& uuid) {
  return file_in_folder_of(path, fmt::format(".{}.{}{}", path.filename().string(), uuid, part_end));
}

fs::path journal_path_of(const fs::path& path, const std::string& uuid, int rank) {
  return file_in_folder_of(
      path, fmt::format(".{}.{}.{}{}", path.filename().string(), uuid, rank, journal_end));
}

std::string journal_start(const std::string& uuid, std::uint64_t rank) {
  return fmt::format(R"({{"run":"{}","rank":{},)", uuid, rank);
}

std::vector<TemporaryFile> temporary_files_of(const fs::path& path) {
  const std::string start = fmt::format(".{}.", path.filename().string());
  std::vector<TemporaryFile> files;
  std::error_code ignored;  // a folder that cannot be read counts as empty
  for (fs::directory_iterator it(file_in_folder_of(path, "."), ignored), last;
       !ignored && it != last; it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(start)) continue;
    for (const std::string_view end : {part_end, journal_end}) {
      if (!name.ends_with(end) || name.size() < start.size() + end.size()) continue;
      const auto middle =
          std::string_view(name).substr(start.size(), name.size() - start.size() - end.size());
      if (auto file = parse(middle, end)) {
        file->path = file_in_folder_of(path, name);
        files.push_back(std::move(*file));
      }
    }
  }
  std::ranges::sort(files, {}, &TemporaryFile::path);
  return files;
}

bool lock_as_writer(const Descriptor& file) {
  return change_lock(file, writer_byte, F_WRLCK, F_OFD_SETLKW) == 0;
}

OpenedTemporaryFile open_temporary_file(const TemporaryFile& file, Locking locking) {
  using Writer = OpenedTemporaryFile::Writer;
  const int access = locking == Locking::take ? O_RDWR : O_RDONLY;
  Descriptor opened(file.path, access | O_NOFOLLOW | O_NONBLOCK);
  if (!opened.valid()) {
    if (errno == ENOENT) return {Writer::no_file, {}, {}};
    return {Writer::foreign, {}, why_not_opened(errno)};
  }
  if (std::string problem = problem_of(file, opened); !problem.empty()) {
    return {Writer::foreign, {}, std::move(problem)};
  }
  const Writer writer = locking == Locking::take ? take_lock(opened) : look_at_lock(opened);
  struct stat status {};
  if (::fstat(opened.get(), &status) == 0 && status.st_nlink == 0) return {Writer::no_file, {}, {}};
  return {writer, std::move(opened), {}};
}

void remove_stale_parts(const fs::path& path) {
  const std::vector<TemporaryFile> files = temporary_files_of(path);
  for (const TemporaryFile& file : files) {
    if (file.kind != TemporaryFile::Kind::part) continue;
    const bool has_journal = std::ranges::any_of(files, [&](const TemporaryFile& other) {
      return other.kind == TemporaryFile::Kind::journal && other.uuid == file.uuid;
    });
    if (has_journal) continue;
    const OpenedTemporaryFile opened = open_temporary_file(file, Locking::take);
    if (opened.writer == OpenedTemporaryFile::Writer::gone) ::unlink(file.path.c_str());
  }
}

}  // namespace shardstream::io
