// A data set of a file: stored elements, which a derived class reads, and their conversion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "io/source/source.hpp"
#include "kernels/data/convert.hpp"

namespace shardstream::io {

class DatasetSource : public Source {
 public:
  const std::string& name() const final { return name_; }
  ElementType type() const final { return conversion_.to; }
  const std::vector<SourceDimension>& dimensions() const final { return dimensions_; }
  const Extents& box() const final { return order_.box(); }
  Extents coordinates(std::uint64_t index) const final { return order_.coordinates(index); }
  std::vector<ElementOrder::Block> blocks(std::uint64_t first, std::uint64_t count) const final {
    return order_.blocks(first, count);
  }
  const ElementOrder& order() const { return order_; }
  const std::string& access() const final { return access_; }

  void read(std::uint64_t first, std::uint64_t count, std::byte* out) const final;
  void read_block(const Extents& start, const Extents& extent, const Pitches& pitch,
                  std::byte* out) const final;
  const std::byte* read_stored(std::uint64_t first, std::uint64_t count,
                               std::byte* slot) const override;
  std::uint64_t convert(std::uint64_t first, std::uint64_t count, const std::byte* stored,
                        std::byte* out) const final;

  /// Part of the messages for values that do not fit type().
  struct Misfit {
    std::string stored_as;    ///< the type in the file: "u16 (big-endian)"
    std::string remedy = {};  ///< if it is empty, the message suggests a type
  };

 protected:
  /// `box` has the extents of a chunk, or of the data set.
  DatasetSource(std::string name, const Conversion& conversion,
                std::vector<SourceDimension> dimensions, Extents box, Misfit misfit);

  void set_access(std::string access) { access_ = std::move(access); }

  /// Writes stored elements to `out`, by default block by block. Thread-safe. Throws like read().
  virtual void fetch(std::uint64_t first, std::uint64_t count, std::byte* out) const;
  /// The same for a block that is not empty, as read_block().
  virtual void fetch_block(const Extents& start, const Extents& extent, const Pitches& pitch,
                           std::byte* out) const = 0;

 private:
  template <class What>
  std::uint64_t convert_elements(std::uint64_t count, const std::byte* stored, std::byte* out,
                                 const What& what) const;
  void convert_block(const Extents& start, const ElementOrder::Block& block, const Pitches& pitch,
                     std::byte* stored, std::byte* out) const;
  [[noreturn]] void fail_to_convert(const std::string& what, const std::byte* stored) const;

  std::string name_, access_;
  Conversion conversion_;
  bool converts_;
  std::vector<SourceDimension> dimensions_;
  ElementOrder order_;
  Misfit misfit_;
};

/// Whether the conversion leaves all elements as they are.
bool is_identity(const Conversion& conversion);

}  // namespace shardstream::io
