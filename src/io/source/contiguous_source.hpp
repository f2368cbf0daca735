// A data set whose elements are adjacent in a file, or adjacent records. Any number of threads read
// it in parallel without HDF5.
#pragma once

#include "core/descriptor.hpp"
#include "io/source/dataset_source.hpp"
#include "io/source/direct_file.hpp"

namespace shardstream::io {

/// The way to read a file.
enum class ReadWay {
  automatic,  ///< direct if less than half of the bytes to read is cached, else cached
  cached,     ///< through the page cache
  direct,     ///< past the page cache (O_DIRECT)
  by_hdf5,    ///< with H5Dread, like every other data set
};

class ContiguousSource final : public DatasetSource {
 public:
  /// The records with the elements start at byte `offset` of `file`. `automatic` means `cached`
  /// until prepare() decides. Throws UsageError if `way` is `direct` but the file does not support
  /// it.
  ContiguousSource(std::string name, const Conversion& conversion, Record record,
                   ElementOrder order, Misfit misfit, Descriptor file, std::uint64_t offset,
                   ReadWay way);

  void prepare(Range elements) override;
  std::optional<StoredBytes> stored(Range elements) const override;
  std::uint64_t stored_bytes() const override { return order().count() * record_.size; }
  std::uint64_t slot_bytes(std::uint64_t count) const override;
  const std::byte* read_stored(std::uint64_t first, std::uint64_t count,
                               std::byte* slot) const override;

 private:
  /// Copies through a temporary buffer if the file is read directly; read_stored() does not.
  void fetch(std::uint64_t first, std::uint64_t count, std::byte* out) const override;
  void fetch_records(Range elements, std::byte* out) const;
  bool has_gaps() const { return record_.size != stored_size(); }
  Range bytes_of(Range elements) const;
  void expect_all(std::int64_t got, Range elements) const;
  void expect_all(std::int64_t got, Range elements, std::uint64_t wanted) const;

  Record record_;
  Descriptor file_;
  std::uint64_t offset_;
  ReadWay way_;
  DirectFile direct_;  // valid if the file is read directly
};

}  // namespace shardstream::io
