// A data set of a file: stored elements, which a derived class reads, and their conversion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "io/source/source.hpp"
#include "kernels/data/convert.hpp"

namespace shardstream::io {

/// The place of the elements in a file whose elements are records, such as a member of a compound
/// type. Bytes.
struct Record {
  std::uint64_t size;    ///< of a record
  std::uint64_t offset;  ///< of the element in it

  bool operator==(const Record&) const = default;
};

class DatasetSource : public Source {
 public:
  const std::string& name() const final { return name_; }
  ElementType type() const final { return conversion_.to; }
  const ElementOrder& order() const final { return order_; }
  const std::string& access() const final { return access_; }
  const Conversion* conversion() const final { return converts_ ? &conversion_ : nullptr; }

  void read(std::uint64_t first, std::uint64_t count, std::byte* out) const final;
  void read_rectangle(Range rows, Range columns, std::byte* out, std::uint64_t stride) const final;
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
  DatasetSource(std::string name, const Conversion& conversion, ElementOrder order, Misfit misfit);

  void set_access(std::string access) { access_ = std::move(access); }

  /// Writes stored elements to `out`. Thread-safe. Throws like read().
  virtual void fetch(std::uint64_t first, std::uint64_t count, std::byte* out) const = 0;
  /// The same for a rectangle, as read_rectangle().
  virtual void fetch_rectangle(Range rows, Range columns, std::byte* out,
                               std::uint64_t stride) const;

 private:
  template <class What>
  std::uint64_t convert_elements(std::uint64_t count, const std::byte* stored, std::byte* out,
                                 const What& what) const;
  [[noreturn]] void fail_to_convert(const std::string& what, const std::byte* stored) const;

  std::string name_, access_;
  Conversion conversion_;
  bool converts_;
  ElementOrder order_;
  Misfit misfit_;
};

/// Whether the conversion leaves all elements as they are.
bool is_identity(const Conversion& conversion);

/// Copies the elements out of `count` records.
void gather(const std::byte* records, const Record& record, std::uint64_t element,
            std::uint64_t count, std::byte* out);

}  // namespace shardstream::io
