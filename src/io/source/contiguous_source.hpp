// A data set whose bytes in the file are the same as in memory. Any number of threads read it in
// parallel without HDF5.
#pragma once

#include "core/descriptor.hpp"
#include "io/source/direct_file.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {

/// The way to read a file.
enum class ReadWay {
  automatic,  ///< direct if less than half of the bytes to read is cached, else cached
  cached,     ///< through the page cache
  direct,     ///< past the page cache (O_DIRECT)
  by_hdf5,    ///< with H5Dread, like every other data set
};

class ContiguousSource final : public Source {
 public:
  /// The elements start at byte `offset` of `file`. `automatic` means `cached` until prepare()
  /// decides. Throws UsageError if `way` is `direct` but the file does not support it.
  ContiguousSource(std::string name, ElementType type, ElementOrder order, Descriptor file,
                   std::uint64_t offset, ReadWay way);

  void prepare(Range elements) override;
  const std::string& name() const override { return name_; }
  ElementType type() const override { return type_; }
  const ElementOrder& order() const override { return order_; }
  const std::string& access() const override { return access_; }
  std::optional<StoredBytes> stored(Range elements) const override;
  std::uint64_t stored_bytes() const override { return order_.count() * size_of(type_); }
  /// Copies through a temporary buffer if the file is read directly; read_into() does not.
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
  DirectFile direct_;  // valid if the file is read directly
};

}  // namespace shardstream::io
