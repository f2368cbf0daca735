// A source of elements: an HDF5 data set or a generator. Element i is the same on every rank, and
// many threads can read ranges of elements in parallel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.hpp"
#include "core/options.hpp"
#include "core/shard.hpp"
#include "io/source/element_order.hpp"
#include "io/source/origin.hpp"
#include "kernels/data/stored.hpp"

namespace shardstream::io {

/// The rows of [input], without those of matrices.
std::span<const OptionRow> input_options();

/// The location of elements in a file. Valid as long as their source.
struct StoredBytes {
  const Descriptor* file;
  Range bytes;
  bool is_exact;    ///< whether the bytes are the stored elements, not the whole file
  bool past_cache;  ///< whether they are read past the page cache
};

/// An upper bound of the host memory that a source needs for decoding, besides slots, in bytes.
struct Decoding {
  std::uint64_t shared, per_reader;

  std::uint64_t host_bytes(unsigned readers) const { return shared + readers * per_reader; }
};

/// Elements by global index. The functions that read or convert are thread-safe. Destroy it before
/// MPI_Finalize, which also ends a parallel HDF5.
class Source {
 public:
  virtual ~Source() = default;

  /// Announces the elements that this process will read. The source may then choose its way of
  /// reading, which access(), stored() and slot_bytes() describe. Not thread-safe: no thread may
  /// read meanwhile.
  virtual void prepare(Range) {}

  /// The name for messages and results: "sea.h5:/elevation" or "uniform".
  virtual const std::string& name() const = 0;
  /// The type that read() returns.
  virtual ElementType type() const = 0;
  virtual const ElementOrder& order() const = 0;
  /// One line on how elements are obtained: "contiguous, parallel pread", "H5Dread, chunks 5x7".
  virtual const std::string& access() const = 0;
  /// The memory that decoding needs; nothing if read() does not decode. Decoding is limited by the
  /// processor, so more threads are faster.
  virtual std::optional<Decoding> decoding() const { return std::nullopt; }
  /// The location of stored elements; nothing if they are not in a file.
  virtual std::optional<StoredBytes> stored(Range) const { return std::nullopt; }
  /// The files that the elements come from; none for a generator.
  const Origin& origin() const { return origin_; }
  /// Sets origin(). Called once by the function that opens the source.
  void set_origin(Origin origin) { origin_ = std::move(origin); }
  /// The size of all elements in storage in bytes; 0 for a generator.
  virtual std::uint64_t stored_bytes() const = 0;

  /// Writes elements [first, first+count) to `out`. Throws Error with the source, the range and the
  /// reason if they cannot be read or do not fit type().
  virtual void read(std::uint64_t first, std::uint64_t count, std::byte* out) const = 0;

  /// Writes a rectangle to `out` with a pitch of `stride` bytes, a multiple of the element size.
  /// Bytes between the rows are not changed. The source must have two dimensions, or one, which is
  /// a column. Throws like read().
  virtual void read_rectangle(Range rows, Range columns, std::byte* out,
                              std::uint64_t stride) const;

  /// The conversion that read() applies to stored elements; null if elements are stored as they
  /// are, or generated.
  virtual const Conversion* conversion() const { return nullptr; }
  /// Whether the data have a convention for missing values.
  bool declares_missing() const { return conversion() != nullptr && conversion()->missing.any(); }
  /// Bytes of a stored element; without conversion() those of an element.
  std::uint64_t stored_size() const {
    return conversion() == nullptr ? size_of(type()) : size_of(conversion()->from);
  }
  /// The size in bytes of a slot for `count` elements in read_stored(). Slots are adjacent, and the
  /// first one is aligned to a page.
  virtual std::uint64_t slot_bytes(std::uint64_t count) const { return count * stored_size(); }
  /// Like read(), but the elements are as they are stored, and the source chooses the position in
  /// the slot. Returns the address of the first element, which may be unaligned.
  virtual const std::byte* read_stored(std::uint64_t first, std::uint64_t count,
                                       std::byte* slot) const;
  /// Converts elements [first, first+count) from read_stored() to `out`, which must not overlap
  /// them. Returns the number of missing values. Only for sources with a conversion(). Throws like
  /// read().
  virtual std::uint64_t convert(std::uint64_t first, std::uint64_t count, const std::byte* stored,
                                std::byte* out) const;

 protected:
  /// Throws ContractError unless these are valid arguments of read_rectangle().
  void expect_rectangle(Range rows, Range columns, std::uint64_t stride) const;

  /// Writes elements [first, first+count) to `out`.
  using Read = std::function<void(std::uint64_t first, std::uint64_t count, std::byte* out)>;
  /// Reads a rectangle with read(), for elements of `element` bytes that are numbered row by row.
  void read_rows(Range rows, Range columns, std::uint64_t element, std::byte* out,
                 std::uint64_t stride, const Read& read) const;

 private:
  Origin origin_;
};

/// Opens input.data: FILE:/PATH, FILE (if it has only one usable data set) or the name of a
/// generator. Throws UsageError for every error that can be found before work starts.
std::unique_ptr<Source> open_source(const Options& options);

/// The type of a source's elements, after their conversion if there is one: "f32", "i16 to f32, *
/// 0.01 (f32), missing: -1".
std::string type_text(const Source& source);

/// A description of a source's data and of their conversion: "x.h5:/T: f32, 1000 elements, 10 x 100
/// of 20 x 100".
std::string identity_of(const Source& source);

/// An option other than input.data that names a source, and the properties of generated data.
struct NamedSource {
  std::string_view key;
  std::vector<std::uint64_t> shape;
  ElementType type;  ///< used if input.type is auto
  std::uint64_t seed;
  /// The remedy for a value that does not fit input.type; if empty, a type is suggested.
  std::string misfit_remedy = {};
};
/// The same for another option. The source will be read by read_rectangle(), so a file may keep
/// more chunks in memory.
std::unique_ptr<Source> open_source(const Options& options, const NamedSource& named);

/// Whether the option `key` names a file. False for a generator and for an empty option.
bool names_file(const Options& options, std::string_view key);

}  // namespace shardstream::io
