// The conversions of a source's elements: one for all elements, or one for those of each file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/shard.hpp"
#include "types/stored.hpp"

namespace shardstream::io {

/// The conversion of each stored element. All conversions have the same stored type, type of
/// elements, and element for missing values. Empty if elements are stored as they are, or
/// generated.
class Conversions {
 public:
  /// Adds the conversion of the next `count` elements. It is merged with the one before if both are
  /// equal.
  void add(std::uint64_t count, const Conversion& conversion);

  bool empty() const { return pieces_.empty(); }
  /// The first conversion, which has the types of all. Only if not empty.
  const Conversion& front() const { return pieces_.front().conversion; }
  /// Whether any of them has a convention for missing values.
  bool declare_missing() const;
  /// Whether every stored value has an element.
  bool always_fit() const;

  /// Calls use(elements, conversion) for the elements of `range` with the same conversion, in
  /// order. Does nothing if empty.
  template <class Use>
  void visit(Range range, const Use& use) const {
    auto piece = std::ranges::upper_bound(pieces_, range.first, {}, &ConversionRun::end);
    for (; piece != pieces_.end() && range.count > 0; ++piece) {
      const std::uint64_t count = std::min(range.count, piece->end - range.first);
      use(Range{range.first, count}, piece->conversion);
      range = {range.first + count, range.count - count};
    }
  }

 private:
  struct ConversionRun {
    std::uint64_t end;  // the element after the last one
    Conversion conversion;
  };

  std::vector<ConversionRun> pieces_;
};

/// Two conversions in words at most, and the number of other ones. Not for empty ones.
std::string text_of(const Conversions& conversions);

/// All conversions and their elements, as a text that two sources share only if they convert all
/// elements alike. It is short for any number of conversions.
std::string identity_of(const Conversions& conversions);

}  // namespace shardstream::io
