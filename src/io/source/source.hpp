// A source of elements: a data set of a file or a generator. Element i is the same on every rank,
// and many threads can read ranges of elements in parallel.
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
#include "io/description/origin.hpp"
#include "io/source/conversions.hpp"
#include "io/source/element_order.hpp"
#include "io/source/strided.hpp"
#include "types/stored.hpp"

namespace shardstream::io {

/// The rows of [input], without those of matrices.
std::span<const OptionRow> input_options();

/// How stored elements are read from their files.
struct FileReads {
  bool is_exact;    ///< whether visit_stored() gives the bytes of elements, not whole files
  bool past_cache;  ///< whether they are read past the page cache
};

/// An upper bound of the host memory that a source needs for decoding, besides slots, in bytes.
struct Decoding {
  std::uint64_t shared, per_reader;

  std::uint64_t host_bytes(unsigned readers) const { return shared + readers * per_reader; }
};

/// A dimension of a data set, and the indices of it that a source uses.
struct SourceDimension {
  std::string name;      ///< empty if it has none
  std::uint64_t extent;  ///< of the data set
  Axis axis;

  bool operator==(const SourceDimension&) const = default;
};

/// Dimensions without names, all of whose indices are used.
std::vector<SourceDimension> unnamed_dimensions(const Extents& shape);

/// Elements by global index, in the order of storage within the selection. The functions that read
/// or convert are thread-safe. Destroy it before MPI_Finalize, which also ends a parallel HDF5.
class Source {
 public:
  virtual ~Source() = default;

  /// Announces the elements that this process will read. The source may then choose its way of
  /// reading, which access(), file_reads() and slot_bytes() describe. Not thread-safe: no thread
  /// may read meanwhile.
  virtual void prepare(Range) {}

  /// The name for messages and results: "sea.h5:/elevation" or "uniform".
  virtual const std::string& name() const = 0;
  /// The type that read() returns.
  virtual ElementType type() const = 0;
  /// All dimensions of the data set, also those that an index removes.
  virtual const std::vector<SourceDimension>& dimensions() const = 0;
  /// The extents of a chunk, or of a contiguous data set.
  virtual const Extents& box() const = 0;
  /// The coordinates of element `index` in the data set.
  virtual Extents coordinates(std::uint64_t index) const = 0;
  /// The elements [first, first+count) as blocks of dimensions(), in order.
  virtual std::vector<ElementOrder::Block> blocks(std::uint64_t first,
                                                  std::uint64_t count) const = 0;
  /// The counts of the dimensions without those that an index removes; {1} if none is left.
  Extents shape() const;
  /// The number of elements.
  std::uint64_t count() const;
  /// One line on how elements are obtained: "contiguous, parallel pread", "H5Dread, chunks 5x7".
  virtual const std::string& access() const = 0;
  /// The memory that decoding needs; nothing if read() does not decode. Decoding is limited by the
  /// processor, so more threads are faster.
  virtual std::optional<Decoding> decoding() const { return std::nullopt; }
  /// Nothing if elements are not in a file.
  virtual std::optional<FileReads> file_reads() const { return std::nullopt; }
  /// Gets the bytes of stored elements in one file, which is open during the call.
  using UseBytes = std::function<void(const Descriptor& file, Range bytes)>;
  /// Calls `use` for each file with these elements, in order. Thread-safe. Throws Error if a file
  /// cannot be opened any more.
  virtual void visit_stored(Range, const UseBytes&) const {}
  /// The files that the elements come from; none for a generator.
  const Origin& origin() const { return origin_; }
  /// Sets origin(). Called once by the function that opens the source.
  void set_origin(Origin origin) { origin_ = std::move(origin); }
  /// The size of all elements in storage in bytes; 0 for a generator.
  virtual std::uint64_t stored_bytes() const = 0;

  /// Writes elements [first, first+count) to `out`. Throws Error with the source, the range and the
  /// reason if they cannot be read or do not fit type().
  virtual void read(std::uint64_t first, std::uint64_t count, std::byte* out) const = 0;

  /// Writes a block to `out`, element by element with these pitches in bytes (io/source/strided).
  /// Bytes between the elements are not changed. `start` and `extent` are in selected indices of
  /// dimensions(). Throws like read(). The default is for elements that are numbered row by row.
  virtual void read_block(const Extents& start, const Extents& extent, const Pitches& pitch,
                          std::byte* out) const;

  /// The conversions that read() applies to stored elements.
  const Conversions& conversions() const { return conversions_; }
  /// Whether the data have a convention for missing values.
  bool declares_missing() const { return conversions_.declare_missing(); }
  /// Bytes of a stored element; without conversions() those of an element.
  std::uint64_t stored_size() const {
    return conversions_.empty() ? size_of(type()) : size_of(conversions_.front().from);
  }
  /// The size in bytes of a slot for `count` elements in read_stored(). Slots are adjacent, and the
  /// first one is aligned to a page.
  virtual std::uint64_t slot_bytes(std::uint64_t count) const { return count * stored_size(); }
  /// Like read(), but the elements are as they are stored, and the source chooses the position in
  /// the slot. Returns the address of the first element, which may be unaligned.
  virtual const std::byte* read_stored(std::uint64_t first, std::uint64_t count,
                                       std::byte* slot) const;
  /// Converts elements [first, first+count) from read_stored() to `out`, which must not overlap
  /// them. Returns the number of missing values. Only for sources with conversions(). Throws like
  /// read().
  virtual std::uint64_t convert(std::uint64_t first, std::uint64_t count, const std::byte* stored,
                                std::byte* out) const;

 protected:
  /// Throws ContractError unless the block is inside the selection.
  void expect_block(const Extents& start, const Extents& extent) const;

  /// Sets conversions(). Called once by the constructor.
  void set_conversions(Conversions conversions) { conversions_ = std::move(conversions); }

 private:
  Origin origin_;
  Conversions conversions_;
};

/// The share (0 to 1) of these stored elements that is in the page cache, estimated from about
/// `samples` pages in all. Nothing if it is unknown, or if they are in no file.
std::optional<double> cached_share(const Source& source, Range elements,
                                   std::uint64_t samples = 512);

/// Opens input.data: FILE:/PATH, FILE:/PATH[SELECTION], FILE (if it has only one usable data set)
/// or the name of a generator. Throws UsageError for every error that can be found before work
/// starts.
std::unique_ptr<Source> open_source(const Options& options);

/// The type of a source's elements, after their conversion if there is one: "f32", "i16 to f32, *
/// 0.01 (f32), missing: -1".
std::string type_text(const Source& source);

/// The shape of a source, with the names of its dimensions: "time=200 x lat=3 x 12".
std::string shape_text(const Source& source);

/// The dimensions that are no index, in ascending order.
std::vector<std::size_t> kept_dimensions(const Source& source);

/// The dimension `text` of a source that is no index: its name, or its number, counted from 0 in
/// the data set. Throws UsageError if there is none, or if several have this name.
std::size_t find_dimension(const Source& source, const std::string& text);

/// The name without the file: ":/elevation[0:90]". Only for sources of files.
std::string name_within_file(const Source& source);

/// The text of the selection of a source, such as "[0:90, :, 5]"; empty if it is the whole data
/// set.
std::string selection_text(const Source& source);

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
  bool keeps_type = false;  ///< whether input.type does not apply to a file
};
/// The same for another option. The source will be read by read_block(), so a file may keep more
/// chunks in memory.
std::unique_ptr<Source> open_source(const Options& options, const NamedSource& named);

/// Whether the option `key` names a file. False for a generator and for an empty option.
bool names_file(const Options& options, std::string_view key);

}  // namespace shardstream::io
