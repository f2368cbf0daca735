// The mappings of a virtual data set, which assign its elements to sources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5/handles.hpp"

namespace shardstream::io {

/// The extents of a data space; none for a scalar. Needs the lock.
std::vector<hsize_t> extents_of(hid_t space);

/// In the name of a source, "%b" stands for the number of a block, "%%" for a percent sign.
struct SourceName {
  std::string text;

  bool is_pattern() const { return of_block(0) != of_block(1); }
  std::string of_block(std::uint64_t block) const;
};

/// One mapping of a virtual data set. All functions need the lock.
struct Mapping {
  SourceName file, dataset;
  hdf5::Space in_virtual, in_source;

  /// The mapping number `i` of the data set with these creation properties.
  Mapping(hid_t creation, std::size_t i);

  bool is_pattern() const { return file.is_pattern() || dataset.is_pattern(); }
  /// The number of elements in the virtual data set; nothing if the selection is unlimited.
  std::optional<std::uint64_t> elements() const;
  /// Whether the selection lies inside a source of these extents.
  bool fits(const std::vector<hsize_t>& source) const;
};

/// Counts the elements of a virtual data set that have a source.
class MappedElements {
 public:
  void add(const Mapping& mapping);
  /// Nothing if a mapping is unlimited. If there are very many mappings, elements with several
  /// sources count several times.
  std::optional<std::uint64_t> count() const;

 private:
  /// Uniting more selections would take too long.
  static constexpr std::size_t max_united = 1000;

  hdf5::Space united_;
  std::size_t mappings_ = 0;
  std::uint64_t sum_ = 0;
  bool is_unlimited_ = false, can_unite_ = true;
};

}  // namespace shardstream::io
