// Where elements come from: an HDF5 data set or a generator. Element i is the same for every rank,
// and ranges of elements are read by many threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/options.hpp"
#include "kernels/data/element.hpp"

namespace shardstream::io {

/// The rows of [input]: data, count, type, seed.
std::span<const OptionRow> input_options();

/// The order in which a data set's elements are numbered: box by box in row-major order of the
/// boxes, row-major inside a box; boxes at the upper edges are clipped. A contiguous data set and a
/// generator are one box; a chunked data set has its chunks, in their stored order.
class ElementOrder {
 public:
  /// `shape` and `box` have the same rank >= 1; every extent >= 1.
  ElementOrder(std::vector<std::uint64_t> shape, std::vector<std::uint64_t> box);

  const std::vector<std::uint64_t>& shape() const { return shape_; }
  const std::vector<std::uint64_t>& box() const { return box_; }
  std::uint64_t count() const { return count_; }

  /// Coordinates of element `index` in the data set's shape.
  std::vector<std::uint64_t> coordinates(std::uint64_t index) const;

  /// A run of consecutive elements that is a block of the data set.
  struct Block {
    std::vector<std::uint64_t> start, extent;
    std::uint64_t count;
  };
  /// The elements [first, first+count) as blocks, in order; at most 2*rank-1 of them a box.
  std::vector<Block> blocks(std::uint64_t first, std::uint64_t count) const;

 private:
  std::vector<std::uint64_t> shape_, box_;
  std::uint64_t count_;
};

/// Elements by global index. read() may be called by several threads at once. To be destroyed
/// before MPI_Finalize, where a parallel HDF5 ends as well.
class Source {
 public:
  virtual ~Source() = default;

  /// The name for messages and results: "sea.h5:/elevation" or "uniform".
  virtual const std::string& name() const = 0;
  /// The type that read() delivers.
  virtual ElementType type() const = 0;
  virtual const ElementOrder& order() const = 0;
  /// One line on how elements are obtained: "contiguous, parallel pread", "H5Dread, chunks 5x7".
  virtual const std::string& access() const = 0;
  /// Bytes in storage that all elements take, 0 for a generator.
  virtual std::uint64_t stored_bytes() const = 0;

  /// Writes elements [first, first+count) to `out`, converted to type(). Throws Error naming the
  /// source, the range and the reason when they cannot be read or do not fit type().
  virtual void read(std::uint64_t first, std::uint64_t count, std::byte* out) const = 0;
};

/// Opens what `input.data` names: FILE:/PATH, FILE (its only usable data set) or a generator's
/// name. Throws UsageError for everything that can be seen before work starts.
std::unique_ptr<Source> open_source(const Options& options);

/// The file that `input.data` names, which a result must not replace; empty for a generator.
std::filesystem::path input_file(const Options& options);

}  // namespace shardstream::io
