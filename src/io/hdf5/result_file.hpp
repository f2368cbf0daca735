// The HDF5 result file of a run. It is written under a temporary name and gets its final name only
// when it is complete. One rank writes it, with the POSIX driver.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/options.hpp"
#include "core/table.hpp"
#include "io/hdf5/labelled_data.hpp"
#include "io/output/part_file.hpp"
#include "types/element.hpp"

namespace shardstream::io {

/// The rows of [output].
std::span<const OptionRow> output_options();

/// "1.10.8": the HDF5 library that files are written with.
std::string hdf5_version();

/// The results that a ResultReader opens.
enum class ResultStatus {
  complete,
  any  ///< also unfinished results, and those that have failed their verification
};

/// Reads a result of this program. The file is opened once and stays open. Every error is
/// a UsageError that names the file, which may have any contents. Takes the lock of HDF5 for every
/// call. Not thread-safe.
class ResultReader {
 public:
  /// Throws unless `file` is a result of this `status` with the schema that ResultFile writes.
  explicit ResultReader(const std::filesystem::path& file,
                        ResultStatus status = ResultStatus::complete);
  ~ResultReader();
  ResultReader(const ResultReader&) = delete;
  ResultReader& operator=(const ResultReader&) = delete;

  /// Calls `take` with `columns` of each row of the table at `path` ("/ceilings"), under the lock.
  /// The table may have more columns. Throws if one of `columns` is missing or has another type, or
  /// if there are more than 2^20 rows.
  void rows(const std::string& path, const std::vector<Column>& columns,
            const std::function<void(std::span<const Cell>)>& take) const;
  /// The same as a table, without units.
  Table table(const std::string& path, const std::vector<Column>& columns) const;
  /// All columns of the table at `path`, with their units.
  Table table(const std::string& path) const;
  /// The paths of the tables in `group` ("/results"), in the order of their names; none if there is
  /// no such group. Only the first 64 members of the group count.
  std::vector<std::string> tables(const std::string& group) const;
  /// The columns of the table at `path`. Results of earlier versions may not have all columns.
  std::vector<Column> columns(const std::string& path) const;
  /// The text attribute `name` of `group` ("/config"); empty if there is no such text.
  std::string text(const std::string& group, const std::string& name) const;
  /// All text attributes of `group`, by name.
  std::map<std::string, std::string> texts(const std::string& group) const;
  /// The integer attribute `name` of `group`; nothing if there is no such integer.
  std::optional<std::int64_t> integer(const std::string& group, const std::string& name) const;

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

/// Writes a result file. Takes the lock of HDF5 for every call. Not thread-safe. Destroy it before
/// MPI_Finalize, which also ends a parallel HDF5.
class ResultFile {
 public:
  /// Creates the part file of `destination` and reserves `reserve` bytes on disk. Throws UsageError
  /// if the file exists and may not be replaced, if the folder does not exist or is not writable,
  /// or if the disk does not have enough space.
  ResultFile(Destination destination, const std::string& run_uuid, std::uint64_t reserve);
  /// The same for a command without input files.
  ResultFile(std::filesystem::path path, Overwrite overwrite, const std::string& run_uuid,
             std::uint64_t reserve);
  /// Removes the part file unless publish() has succeeded or keep() was called.
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  /// Sets an attribute of `group` ("/" is the root), which is created if necessary.
  void attribute(const std::string& group, const std::string& name, const AttributeValue& value);
  /// Writes `table` as group/NAME in the HDF5 Table layout; units as attributes units_FIELD.
  void table(const std::string& group, const Table& table);
  /// Writes dimensions and arrays to `group`. Throws UsageError without enough disk space.
  void labelled(const std::string& group, const LabelledData& data);
  /// Allocates the contiguous data set group/NAME of `shape` (empty for a scalar), reserves its
  /// space on disk, and returns the offset of its bytes in the part file. Any rank may then write
  /// it with a RangeWriter, while this object continues to write. Elements that are not written are
  /// 0. Every RangeWriter must call sync() before publish(). `labelled_bytes` are reserved for
  /// labelled(), too. Throws UsageError without enough disk space.
  std::uint64_t dataset(const std::string& group, const std::string& name, ElementType type,
                        const std::vector<std::uint64_t>& shape, std::uint64_t labelled_bytes = 0);

  /// Keeps the part file from now on, even after publish(): a later run resumes from its matrix.
  /// The rest of the file may be incomplete.
  void keep();

  /// Sets the status, closes and syncs the file, and gives it its final name. The status of a
  /// result that has failed its verification is "unverified"; the next run may replace it. On
  /// failure, throws Error and removes the file unless keep() was called.
  void publish(const std::string& status = "complete");
  /// See PartFile::is_overtaken().
  bool is_overtaken() const;

  const std::filesystem::path& path() const;
  /// The path of the part file, which a signal handler must remove.
  const std::filesystem::path& part_path() const;

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace shardstream::io
