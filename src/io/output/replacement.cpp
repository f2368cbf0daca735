#include "io/output/replacement.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <system_error>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "io/hdf5/handles.hpp"

namespace shardstream::io {
namespace {

namespace fs = std::filesystem;

/// The contents of a file that this program has written, from its own marks.
struct Mark {
  Contents contents;
  bool complete = true;
  std::string created = {};
};

std::optional<Mark> mark_of_hdf5(const fs::path& path) {
  const hdf5::AtWork at_work(path.string(), hdf5::Stage::opening);
  const hdf5::Lock lock;
  const auto access = hdf5::posix_access(hdf5::FileLocking::off);
  const hdf5::File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (!file.valid()) return std::nullopt;
  const hdf5::Object root(H5Oopen(file.get(), "/", H5P_DEFAULT));
  if (!root.valid()) return std::nullopt;
  const std::string schema = hdf5::read_text_attribute(root.get(), "schema");
  if (schema == generated_schema) return Mark{Contents::generated};
  if (schema != result_schema) return std::nullopt;
  return Mark{Contents::result, hdf5::read_text_attribute(root.get(), "status") == "complete",
              hdf5::read_text_attribute(root.get(), "created_utc")};
}

std::optional<Mark> mark_of(const fs::path& path) {
  const Descriptor file(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  std::string start(max_text_mark, '\0');
  file.read_at(0, reinterpret_cast<std::byte*>(start.data()), start.size());
  for (const TextMark& mark : text_marks) {
    if (start.starts_with(mark.start)) return Mark{mark.contents};
  }
  return mark_of_hdf5(path);
}

bool is_hdf5(Contents contents) {
  return contents == Contents::result || contents == Contents::generated;
}

/// The reason why the regular file at the destination may not be replaced, or nothing. An
/// unfinished result may always be replaced.
std::optional<std::string> objection_to_replacing(const Destination& destination) {
  if (destination.overwrite == Overwrite::anything) return std::nullopt;
  const auto mark = mark_of(destination.path);
  const bool own = mark && mark->contents == destination.contents;
  if (own && (destination.overwrite == Overwrite::own || !mark->complete)) return std::nullopt;
  const std::string_view kind = word_of(destination.contents);
  if (!own) {
    return fmt::format(
        "'{}' already exists and is not {}: choose another {} or pass --output.overwrite anything, "
        "which replaces the whole file",
        destination.path.string(), kind, destination.option);
  }
  return fmt::format(
      "'{}' already exists ({}): choose another {} or pass --output.overwrite true, which replaces "
      "the whole file{}",
      destination.path.string(),
      mark->created.empty() ? std::string(kind) : "complete result of " + mark->created,
      destination.option, is_hdf5(destination.contents) ? " with all its data sets" : "");
}

/// The destination may be the input itself, or a hard or symbolic link to it.
std::optional<std::string> objection_to_input(const Destination& destination) {
  const InputFile* const input = input_at(destination.path, destination.inputs);
  if (input == nullptr) return std::nullopt;
  return fmt::format("'{}' is an input of this command ({}): choose another {}",
                     destination.path.string(), input->path.string(), destination.option);
}

std::optional<std::string> objection_to_link(const Destination& destination) {
  std::error_code unreadable;
  const fs::path target = fs::read_symlink(destination.path, unreadable);
  return fmt::format(
      "'{}' is a symbolic link{}, and links are neither followed nor replaced: name the file "
      "itself, or choose another {}",
      destination.path.string(), unreadable ? "" : fmt::format(" to '{}'", target.string()),
      destination.option);
}

}  // namespace

Overwrite overwrite_of(const Options& options) {
  const std::string& text = options.text("output.overwrite");
  if (text == "anything") return Overwrite::anything;
  return text == "true" ? Overwrite::own : Overwrite::never;
}

std::optional<std::string> objection(const Destination& destination) {
  struct stat status {};
  if (::lstat(destination.path.c_str(), &status) != 0) return std::nullopt;
  if (auto reason = objection_to_input(destination)) return reason;
  if (S_ISDIR(status.st_mode)) {
    return fmt::format("'{}' is a folder: choose another {}", destination.path.string(),
                       destination.option);
  }
  if (const auto kind = special_kind(destination.path); !kind.empty()) {
    return fmt::format("'{}' is {}, not a regular file: choose another {}",
                       destination.path.string(), kind, destination.option);
  }
  if (S_ISLNK(status.st_mode)) return objection_to_link(destination);
  return objection_to_replacing(destination);
}

void expect_free(const Destination& destination) {
  const std::string name = destination.path.filename().string();
  if (name.empty() || name == "." || name == "..") {
    throw UsageError(fmt::format("{}: '{}' has no file name: add one", destination.option,
                                 destination.path.string()));
  }
  if (destination.path == "-") {
    throw UsageError(fmt::format(
        "{}: the output cannot be written to standard output, since it appears under its name when "
        "it is complete: name a file instead of -",
        destination.option));
  }
  if (const auto reason = objection(destination)) {
    throw UsageError(fmt::format("{}: {}", destination.option, *reason));
  }
  if (const std::string reason = promises_other_format(destination.contents, destination.path);
      !reason.empty()) {
    throw UsageError(fmt::format("{}: {}", destination.option, reason));
  }
}

}  // namespace shardstream::io
