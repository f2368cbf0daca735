// Where elements come from: an HDF5 data set or a generator. Element i is the same for every rank,
// and ranges of elements are read by many threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.hpp"
#include "core/options.hpp"
#include "core/shard.hpp"
#include "io/source/origin.hpp"
#include "kernels/data/element.hpp"

namespace shardstream::io {

/// The rows of [input] but for a workload's own: data, read, unwritten, count, shape, type, seed.
std::span<const OptionRow> input_options();

/// Elements in one step along each dimension of a row-major block of at least one dimension.
std::vector<std::uint64_t> row_major_strides(const std::vector<std::uint64_t>& extent);

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

/// Where elements stand in a file. Valid as long as their source.
struct StoredBytes {
  const Descriptor* file;
  Range bytes;
  bool as_wanted;   ///< the bytes are the elements; else they are the whole file
  bool past_cache;  ///< they are read from storage itself, whether they are cached or not
};

/// Host memory that a source takes to decode, beside the slots: an upper bound, in bytes.
struct Decoding {
  std::uint64_t shared, per_reader;

  std::uint64_t host_bytes(unsigned readers) const { return shared + readers * per_reader; }
};

/// Elements by global index. read() and read_into() may be called by several threads at once. To be
/// destroyed before MPI_Finalize, where a parallel HDF5 ends as well.
class Source {
 public:
  virtual ~Source() = default;

  /// Says what this process will read, before it does: the source may choose its way by that, and
  /// access(), stored() and slot_bytes() then speak of it. For one thread, while none reads.
  virtual void prepare(Range) {}

  /// The name for messages and results: "sea.h5:/elevation" or "uniform".
  virtual const std::string& name() const = 0;
  /// The type that read() delivers.
  virtual ElementType type() const = 0;
  virtual const ElementOrder& order() const = 0;
  /// One line on how elements are obtained: "contiguous, parallel pread", "H5Dread, chunks 5x7".
  virtual const std::string& access() const = 0;
  /// The memory that decoding takes; nothing if read() does not decode. Decoding keeps a processor
  /// busy, so that more threads read faster.
  virtual std::optional<Decoding> decoding() const { return std::nullopt; }
  /// Where `elements` stand; nothing when it is in no file.
  virtual std::optional<StoredBytes> stored(Range) const { return std::nullopt; }
  /// The files that the elements come from; none for a generator.
  const Origin& origin() const { return origin_; }
  /// Sets origin(); for whoever opens the source.
  void come_from(Origin origin) { origin_ = std::move(origin); }
  /// Bytes in storage that all elements take, 0 for a generator.
  virtual std::uint64_t stored_bytes() const = 0;

  /// Writes elements [first, first+count) to `out`, converted to type(). Throws Error naming the
  /// source, the range and the reason when they cannot be read or do not fit type().
  virtual void read(std::uint64_t first, std::uint64_t count, std::byte* out) const = 0;

  /// For shapes of one dimension, which are columns, or two: writes a rectangle to `out`, converted
  /// to type(), rows `stride` bytes apart (a multiple of the element's size; what lies between them
  /// stays as it is). Throws as read() does.
  virtual void read_rectangle(Range rows, Range columns, std::byte* out,
                              std::uint64_t stride) const;

  /// Bytes that a slot for `count` elements must have for read_into(). Slots stand one behind the
  /// other, and the first is aligned to a page.
  virtual std::uint64_t slot_bytes(std::uint64_t count) const { return count * size_of(type()); }
  /// As read(), but to where in the slot the source likes; returns where the elements begin, which
  /// need not be aligned.
  virtual const std::byte* read_into(std::uint64_t first, std::uint64_t count,
                                     std::byte* slot) const {
    read(first, count, slot);
    return slot;
  }

 protected:
  /// Throws ContractError unless read_rectangle() takes these.
  void expect_rectangle(Range rows, Range columns, std::uint64_t stride) const;

 private:
  Origin origin_;
};

/// Opens what `input.data` names: FILE:/PATH, FILE (its only usable data set) or a generator's
/// name. Throws UsageError for everything that can be seen before work starts.
std::unique_ptr<Source> open_source(const Options& options);

/// "x.h5:/T: f32, 1000 elements, 10 x 100 of 20 x 100": which data a source has, in words.
std::string identity_of(const Source& source);

/// What an option beside `input.data` names, and what a generator makes if it names one.
struct NamedSource {
  std::string_view key;
  std::vector<std::uint64_t> shape;
  ElementType type;  ///< where input.type is auto
  std::uint64_t seed;
  std::string misfit_remedy = {};  ///< where a value does not fit input.type; empty: a better type
};
/// As the other, to be read by read_rectangle(); a file may then keep more chunks in memory.
std::unique_ptr<Source> open_source(const Options& options, const NamedSource& named);

/// Whether the option `key` names a file, not a generator and not nothing.
bool names_file(const Options& options, std::string_view key);

}  // namespace shardstream::io
