// A data set whose bytes stand in the file as they are wanted in memory: read without HDF5, by any
// number of threads at once.
#pragma once

#include "core/descriptor.hpp"
#include "io/source/direct_file.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {

/// How a file is read.
enum class ReadWay {
  automatic,  ///< direct if less than half of what will be read is cached, else cached
  cached,     ///< through the page cache
  direct,     ///< past it (O_DIRECT)
  by_hdf5,    ///< by H5Dread, as every other data set
};

class ContiguousSource final : public Source {
 public:
  /// The elements start at byte `offset` of `file`. `automatic` is `cached` until prepare()
  /// chooses. Throws UsageError if the way is `direct` and the file cannot be read so.
  ContiguousSource(std::string name, ElementType type, ElementOrder order, Descriptor file,
                   std::uint64_t offset, ReadWay way);

  void prepare(Range elements) override;
  const std::string& name() const override { return name_; }
  ElementType type() const override { return type_; }
  const ElementOrder& order() const override { return order_; }
  const std::string& access() const override { return access_; }
  std::optional<StoredBytes> stored(Range elements) const override;
  std::uint64_t stored_bytes() const override { return order_.count() * size_of(type_); }
  /// By way of a buffer of its own when the file is read direct: read_into() needs none.
  void read(std::uint64_t first, std::uint64_t count, std::byte* out) const override;
  std::uint64_t slot_bytes(std::uint64_t count) const override;
  const std::byte* read_into(std::uint64_t first, std::uint64_t count,
                             std::byte* slot) const override;

 private:
  Range bytes_of(Range elements) const;
  void expect_all(std::int64_t got, Range elements) const;

  std::string name_, access_;
  ElementType type_;
  ElementOrder order_;
  Descriptor file_;
  std::uint64_t offset_;
  ReadWay way_;
  DirectFile direct_;  // valid when the file is read so
};

}  // namespace shardstream::io
