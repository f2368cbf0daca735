// A data set whose bytes stand in the file as they are wanted in memory: read without HDF5, by any
// number of threads at once.
#pragma once

#include "core/descriptor.hpp"
#include "io/source.hpp"

namespace shardstream::io {

class ContiguousSource final : public Source {
 public:
  /// The elements start at byte `offset` of `file`.
  ContiguousSource(std::string name, ElementType type, ElementOrder order, Descriptor file,
                   std::uint64_t offset);

  const std::string& name() const override { return name_; }
  ElementType type() const override { return type_; }
  const ElementOrder& order() const override { return order_; }
  const std::string& access() const override { return access_; }
  std::uint64_t stored_bytes() const override { return order_.count() * size_of(type_); }
  void read(std::uint64_t first, std::uint64_t count, std::byte* out) const override;

 private:
  std::string name_, access_;
  ElementType type_;
  ElementOrder order_;
  Descriptor file_;
  std::uint64_t offset_;
};

}  // namespace shardstream::io
