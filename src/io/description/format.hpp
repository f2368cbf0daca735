// The interface between a format of files and sources. A format describes the data sets of its
// files and gives their bytes; everything else is the same for all formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.hpp"
#include "io/description/dataset_name.hpp"
#include "io/description/description.hpp"
#include "io/description/origin.hpp"

namespace shardstream::io {

/// The bytes of a chunk as they are stored.
struct StoredChunk {
  std::shared_ptr<const Descriptor> file = nullptr;  ///< the open file
  std::uint64_t address = 0;                         ///< in the file
  std::uint64_t bytes = 0;                           ///< 0: the chunk was never written
  std::uint32_t mask = 0;                            ///< bit i is set if filter i was skipped
};

/// The chunks of a data set as they are stored. Thread-safe.
class ChunkStore {
 public:
  virtual ~ChunkStore() = default;

  /// Returns the chunk whose first element has the coordinates `start`. `number`, its row-major
  /// number, identifies it. Throws Error.
  virtual StoredChunk find(std::uint64_t number, std::span<const std::uint64_t> start) const = 0;

  /// Calls `use` for each file that contains chunks.
  using UseFile = std::function<void(const Descriptor&)>;
  virtual void visit_files(const UseFile& use) const = 0;
};

/// Reads blocks of a data set through the library of its format. Not thread-safe.
class LibraryReader {
 public:
  virtual ~LibraryReader() = default;

  /// Writes the elements start, start + step, ... of the data set to `out`, `extent` of them along
  /// each dimension, dense, as elements of form.type, or as records if the description has a
  /// member. Elements that were never written have the fill value. Returns the problem with a value
  /// that the type cannot hold, or nothing. Throws Error if the block cannot be read.
  virtual std::optional<std::string> read(const Extents& start, const Extents& step,
                                          const Extents& extent, std::byte* out) const = 0;

  /// Converts `count` elements of a form that is by_library to form.type, in place. Returns and
  /// throws like read().
  virtual std::optional<std::string> convert(std::uint64_t count, std::byte* values) const = 0;

  /// The size of an element in the file in bytes, without the rest of its record.
  virtual std::uint64_t element_size() const = 0;
};

/// A data set that the library of its format reads. Thread-safe.
class LibraryData {
 public:
  virtual ~LibraryData() = default;
  /// A reader for one thread, which this object must outlive.
  virtual std::unique_ptr<const LibraryReader> start() const = 0;
};

/// A data set of an open file. The functions throw UsageError.
class OpenDataset {
 public:
  virtual ~OpenDataset() = default;

  /// One per dimension; none for a scalar.
  virtual std::vector<Dimension> dimensions() const = 0;

  /// The coordinates of a dimension, with their conventions (packing and missing values). Nothing
  /// if they are no numbers, or more than `max_coordinates`, or in other files.
  virtual std::optional<Coordinates> coordinates(std::size_t dimension) const = 0;
  /// The bounds of these coordinates. Nothing if the coordinates name none.
  virtual std::optional<Bounds> bounds(std::size_t dimension) const = 0;

  /// An attribute; its content is empty if the attribute does not exist or cannot be read.
  virtual AttributeContent attribute(const std::string& name) const = 0;

  /// Describes the data set, or a member of its compound type unless `member` is empty; with
  /// Description::attributes if they are requested. Throws UsageError if it has no elements or too
  /// many, no numbers, an unknown filter, or is damaged.
  virtual Description describe(const std::string& member, bool with_attributes) const = 0;

  /// Whether its elements are texts.
  virtual bool has_texts() const = 0;
  /// Throws UsageError unless these texts have one dimension, or are the rows of a matrix of
  /// characters, and there are `max` at most.
  virtual void expect_readable_texts(std::uint64_t max) const = 0;
  /// All texts, as they are stored; a missing one is empty.
  virtual std::vector<std::string> read_texts() const = 0;
};

/// A file that is open.
class OpenFile {
 public:
  virtual ~OpenFile() = default;

  /// `name` as this file means it, in which braces and brackets may belong to the path. Without a
  /// path, it is the file's only data set of numbers. Throws UsageError.
  virtual DatasetName resolve(const DatasetName& name) const = 0;

  /// Finds all files that contain the bytes of the data set at `path`. Throws UsageError if a
  /// required file is missing, too short, or a FIFO, device or socket; if virtual data sets form a
  /// cycle; and, with Unwritten::reject, if elements were never written. Comes before open(), since
  /// a library may open all these files.
  virtual Origin trace(const std::string& path, Unwritten unwritten) const = 0;

  /// Opens the data set at `path`. `name` is its name in messages. Throws UsageError.
  virtual std::unique_ptr<OpenDataset> open(const std::string& path,
                                            const std::string& name) const = 0;

  /// Opens the data set at `path` with this description for reading, with `cache_bytes` of memory
  /// for decoded chunks. It does not need this object any longer. Throws Error.
  virtual std::unique_ptr<LibraryData> open_data(const std::string& path,
                                                 const Description& description,
                                                 std::size_t cache_bytes) const = 0;
};

/// A format of files.
struct Format {
  std::string_view name;       ///< "HDF5"
  std::string_view read_call;  ///< that of its library: "H5Dread"
  /// The memory of an open data set, and that of a store of so many chunks, in bytes at most.
  std::uint64_t open_bytes;
  std::uint64_t (*chunk_store_bytes)(std::uint64_t chunks);
  /// Opens a file for reading. Throws UsageError.
  std::unique_ptr<OpenFile> (*open)(const std::filesystem::path& file);
  /// Opens the chunks of a data set with Layout::chunked. Throws Error.
  std::unique_ptr<ChunkStore> (*open_chunks)(const Description& description);
};

/// Opens a file for reading, in the format that it has. Throws UsageError.
std::unique_ptr<OpenFile> open_data_file(const std::filesystem::path& file);

}  // namespace shardstream::io
