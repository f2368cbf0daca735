// A data set whose elements, or records, are adjacent in a file, row by row. Any number of threads
// read it in parallel without a library.
#pragma once

#include "core/descriptor.hpp"
#include "io/description/description.hpp"
#include "io/source/dataset/dataset_source.hpp"
#include "io/source/dataset/direct_file.hpp"

namespace shardstream::io {

/// The way to read a file.
enum class ReadWay {
  automatic,           ///< direct if less than half of the bytes to read is cached, else cached
  cached,              ///< through the page cache
  direct,              ///< past the page cache (O_DIRECT)
  direct_if_possible,  ///< past the page cache if the file system supports it, else cached
  by_library,          ///< by the library of the format, like every other data set
};

/// Source::access() of a contiguous data set that is read through the page cache.
inline constexpr auto contiguous_access = "contiguous, parallel pread";
/// The same past the page cache.
inline constexpr auto direct_access = "contiguous, parallel O_DIRECT reads";

/// Whether the selected elements of a contiguous data set are adjacent in its file.
bool are_adjacent(const std::vector<SourceDimension>& dimensions, const Record& record,
                  std::uint64_t element);

/// The records of a data set, one after another.
struct StoredRecords {
  Descriptor file;
  std::uint64_t offset;  ///< the byte where the first one begins
  Record record;
};

class ContiguousSource final : public DatasetSource {
 public:
  /// `automatic` means `cached` until prepare() decides. Throws UsageError if `way` is `direct` but
  /// the file does not support it.
  ContiguousSource(std::string name, const Conversion& conversion,
                   std::vector<SourceDimension> dimensions, Misfit misfit, StoredRecords records,
                   ReadWay way);

  void prepare(Range elements) override;
  std::optional<FileReads> file_reads() const override {
    return FileReads{.is_exact = is_run_, .past_cache = direct_.valid()};
  }
  void visit_stored(Range elements, const UseBytes& use) const override;
  std::uint64_t stored_bytes() const override { return count() * record_.size; }
  std::uint64_t slot_bytes(std::uint64_t count) const override;
  const std::byte* read_stored(std::uint64_t first, std::uint64_t count,
                               std::byte* slot) const override;

 private:
  /// Copies through a temporary buffer if the file is read directly; read_stored() does not.
  void fetch(std::uint64_t first, std::uint64_t count, std::byte* out) const override;
  void fetch_block(const Extents& start, const Extents& extent, const Pitches& pitch,
                   std::byte* out) const override;
  void read_at(std::uint64_t offset, std::uint64_t bytes, std::byte* out) const;
  Range bytes_of(Range elements) const;
  void expect_all(std::int64_t got, Range bytes) const;

  Record record_;
  Descriptor file_;
  std::uint64_t offset_;  // of the first selected record
  Pitches pitch_;         // of selected records in the file
  bool is_run_;           // whether the selected elements are one run of bytes
  ReadWay way_;
  DirectFile direct_;  // valid if the file is read directly
};

}  // namespace shardstream::io
