// The HDF5 file that a run leaves behind. It is written under a name of its own and appears under
// the final name only when it is complete. One rank writes it, with the POSIX driver.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/options.hpp"
#include "core/table.hpp"
#include "io/output/part_file.hpp"
#include "kernels/data/element.hpp"

namespace shardstream::io {

/// The rows of [output]: file, overwrite, resume, store.
std::span<const OptionRow> output_options();

/// A scalar or a list that becomes an HDF5 attribute.
using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;

/// "1.10.8": the HDF5 library that files are written with.
std::string hdf5_version();

/// A complete result of this program, to be read. The file is opened once and stays open. Every
/// error is a UsageError that names the file, which may be anything. Takes the library's lock for
/// every HDF5 call; for one thread.
class ResultReader {
 public:
  /// Throws unless `file` is a result of the schema that ResultFile writes, and complete.
  explicit ResultReader(const std::filesystem::path& file);
  ~ResultReader();
  ResultReader(const ResultReader&) = delete;
  ResultReader& operator=(const ResultReader&) = delete;

  /// These columns of the table at `path` ("/ceilings"), which may have more; units are not read.
  /// Throws if one of them is missing or of another type, or if there are more than 2^20 rows.
  Table table(const std::string& path, const std::vector<Column>& columns) const;
  /// All columns of the table at `path`, with their units.
  Table table(const std::string& path) const;
  /// Whether that table has the column. Results of earlier versions lack what came later.
  bool has_column(const std::string& path, const std::string& column) const;
  /// The text attribute `name` of `group` ("/config"); empty if it has none of that type.
  std::string text(const std::string& group, const std::string& name) const;
  /// All text attributes of `group`, by name.
  std::map<std::string, std::string> texts(const std::string& group) const;
  /// The integer attribute `name` of `group`; nothing if it has none of that type.
  std::optional<std::int64_t> integer(const std::string& group, const std::string& name) const;

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

/// Not thread-safe; takes the library's lock for every HDF5 call. To be destroyed before
/// MPI_Finalize, where a parallel HDF5 ends as well.
class ResultFile {
 public:
  /// Creates the part file beside `path` and reserves `reserve` bytes for it. Throws UsageError
  /// if `path` exists and `overwrite` does not allow to replace it, or if the folder is missing,
  /// not writable or too full.
  ResultFile(std::filesystem::path path, Overwrite overwrite, const std::string& run_uuid,
             std::uint64_t reserve);
  /// Removes the part file unless publish() succeeded or it is to be kept.
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  /// Sets an attribute of `group` ("/" is the root); missing groups are made.
  void attribute(const std::string& group, const std::string& name, const Attribute& value);
  /// Writes `table` as group/NAME in the HDF5 Table layout; units as attributes units_FIELD.
  void table(const std::string& group, const Table& table);
  /// Lays out the contiguous data set group/NAME of `rows` x `columns` elements, its room on disk
  /// reserved, and returns where in the part file its bytes begin. Any rank may then write it with
  /// a RangeWriter, while this goes on writing; what is not written is zeros. Every RangeWriter
  /// must have synced before publish(). Throws UsageError when the disk has no room.
  std::uint64_t dataset(const std::string& group, const std::string& name, ElementType type,
                        std::uint64_t rows, std::uint64_t columns);

  /// From now on the part file stays, also beside what is published: a later run resumes from its
  /// matrix, the rest of it may be half written.
  void keep();

  /// Sets the status (a result that did not pass its verification is "unverified", and may be
  /// replaced by the next run), closes, syncs and links the file into place. Throws Error, and
  /// leaves nothing behind that is not to be kept, when any of that fails.
  void publish(const std::string& status = "complete");
  /// As PartFile::is_overtaken().
  bool is_overtaken() const;

  const std::filesystem::path& path() const;
  /// The part file, for a signal handler that must remove it.
  const std::filesystem::path& part_path() const;

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace shardstream::io
