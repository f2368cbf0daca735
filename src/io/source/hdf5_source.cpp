#include "io/source/hdf5_source.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/hdf5/handles.hpp"
#include "io/hdf5/lookup.hpp"
#include "io/hdf5/stored_type.hpp"
#include "io/source/chunks/reader.hpp"
#include "io/source/contiguous_source.hpp"
#include "io/source/description.hpp"
#include "io/source/hdf5_transfer.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

/// The source that reads without HDF5. Null if HDF5 must read the bytes, since they are not
/// contiguous in this file, were never written (and have the fill value), or differ in type or byte
/// order.
std::unique_ptr<Source> try_direct(const hdf5::Dataset& dataset, const DatasetDescription& about,
                                   ReadWay way) {
  const hdf5::Properties creation(H5Dget_create_plist(dataset.get()),
                                  "cannot get the layout of " + about.name);
  ElementOrder order(about.shape, about.box);
  const std::uint64_t bytes =
      order.count() / about.shape[0] * about.stored_rows * size_of(about.wanted);
  if (about.layout != H5D_CONTIGUOUS || !about.filters.empty() || about.converted ||
      H5Pget_external_count(creation.get()) != 0 || about.stored_bytes != bytes) {
    return nullptr;
  }
  const haddr_t offset = H5Dget_offset(dataset.get());
  if (offset == HADDR_UNDEF) return nullptr;
  Descriptor file(file_of(dataset), O_RDONLY);
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) return nullptr;
  const auto end = static_cast<std::uint64_t>(status.st_size);
  if (bytes > end || offset > end - bytes) return nullptr;
  return std::make_unique<ContiguousSource>(about.name, about.wanted, std::move(order),
                                            std::move(file), offset, way);
}

/// The number of chunks along the last dimension.
std::uint64_t chunks_per_band(const DatasetDescription& about) {
  return ceil_div(about.shape.back(), about.box.back());
}

/// Access properties with a cache for a few chunks, so that a chunk that several reads share is
/// decoded once. For rectangles, which may be as wide as the data set, the cache holds a band of
/// chunks, up to a limit. Chunks that have been read completely are evicted first.
hdf5::Properties cached_access(const DatasetDescription& about, ReadOrder read_order) {
  hdf5::Properties access(H5Pcreate(H5P_DATASET_ACCESS), "cannot make data set properties");
  if (about.layout != H5D_CHUNKED) return access;
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  constexpr std::size_t slots = 10'007;  // a prime
  std::size_t chunk = about.stored_size;
  for (const auto extent : about.box) chunk *= extent;
  std::size_t bytes = std::max({16 * mebibyte, std::min(4 * chunk, 64 * mebibyte), 2 * chunk});
  if (read_order == ReadOrder::rectangles) {
    const std::size_t band = saturating_product(chunks_per_band(about) + 1, chunk);
    bytes = std::max(bytes, std::min(band, 256 * mebibyte));
  }
  check(H5Pset_chunk_cache(access.get(), slots, bytes, 1.0), "cannot size the chunk cache");
  return access;
}

ChunkLayout chunks_of(const DatasetDescription& about, ReadOrder read_order) {
  Extents stored = about.shape;
  stored[0] = about.stored_rows;
  return {.name = about.name,
          .stored = std::move(stored),
          .chunk = about.box,
          .element = about.stored_size,
          .read_order = read_order};
}

/// The warning that HDF5 decodes the chunks in one thread.
std::string decoded_by_hdf5(const DatasetDescription& about) {
  return fmt::format(
      "{} has the filters {}, which HDF5 decodes in a single thread, even with several readers: "
      "the "
      "ceiling decode is its rate (all readers decode deflate, shuffle and fletcher32: rewrite it "
      "with h5repack -f SHUF -f GZIP=1)",
      about.name, join(about.filters, ", "));
}

using MaybeTransfer = std::unique_ptr<const Hdf5Transfer>;

// Descriptions of ranges for messages.
std::string elements_text(Range elements) {
  return fmt::format("elements {} to {}", elements.first, elements.end() - 1);
}
std::string rectangle_text(Range rows, Range columns) {
  const auto lines = rows.count == 1 ? fmt::format("row {}", rows.first)
                                     : fmt::format("rows {} to {}", rows.first, rows.end() - 1);
  return fmt::format("{}, columns {} to {}", lines, columns.first, columns.end() - 1);
}

class Hdf5Source final : public Source {
 public:
  /// `stored` is the file with the data set's bytes; it is invalid if that file cannot be opened.
  /// If `chunks` is null, HDF5 reads the data set.
  Hdf5Source(hdf5::File file, hdf5::Dataset dataset, DatasetDescription about, Descriptor stored,
             std::unique_ptr<ChunkReader> chunks, ReadOrder read_order, std::string misfit_remedy)
      : about_(std::move(about)),
        misfit_remedy_(std::move(misfit_remedy)),
        stored_(std::move(stored)),
        order_(about_.shape, about_.box),
        file_(std::move(file)),
        dataset_(std::move(dataset)),
        chunks_(std::move(chunks)),
        read_order_(read_order),
        access_(describe_access()) {}
  ~Hdf5Source() override;

  void prepare(Range elements) override;

  const std::string& name() const override { return about_.name; }
  ElementType type() const override { return about_.wanted; }
  const ElementOrder& order() const override { return order_; }
  const std::string& access() const override { return access_; }
  std::uint64_t stored_bytes() const override {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>(Wide{about_.stored_bytes} * about_.shape[0] /
                                      about_.stored_rows);
  }
  std::optional<Decoding> decoding() const override {
    return chunks_ ? chunks_->decoding() : std::nullopt;
  }
  std::optional<StoredBytes> stored(Range elements) const override;
  void read(std::uint64_t first, std::uint64_t count, std::byte* out) const override;
  void read_rectangle(Range rows, Range columns, std::byte* out,
                      std::uint64_t stride) const override;

 private:
  std::string describe_access() const;
  void read_delivered(std::uint64_t first, std::uint64_t count, std::byte* out) const;
  void read_as_integers(std::uint64_t first, std::uint64_t count, std::byte* out) const;
  void read_rectangle_delivered(const MaybeTransfer& transfer, Range rows, Range columns,
                                std::byte* out, std::uint64_t pitch) const;
  void read_rectangle_as_integers(const MaybeTransfer& transfer, Range rows, Range columns,
                                  std::byte* out, std::uint64_t stride) const;
  MaybeTransfer start_transfer() const;
  template <class What>
  void read_block(const MaybeTransfer& transfer, const Extents& start, const Extents& extent,
                  std::uint64_t pitch, const What& what, std::byte* out) const;
  template <class What>
  void expect_sign(std::uint64_t first, std::uint64_t count, const What& what,
                   const std::byte* values) const;
  [[noreturn]] void fail_to_convert(const std::string& what, const std::string& complaint) const;

  /// The number of elements that are converted at a time without HDF5.
  static constexpr std::uint64_t max_floats = 1 << 17;

  DatasetDescription about_;
  std::string misfit_remedy_;
  Descriptor stored_;
  ElementOrder order_;
  hdf5::File file_;
  hdf5::Dataset dataset_;
  std::unique_ptr<ChunkReader> chunks_;
  ReadOrder read_order_;
  std::string access_;
};

/// Closes the file while a crash can still be reported.
Hdf5Source::~Hdf5Source() {
  const hdf5::AtWork at_work(about_.name, hdf5::Stage::reading);
  chunks_.reset();
  dataset_.close();
  file_.close();
}

void Hdf5Source::prepare(Range elements) {
  if (!chunks_) return;
  if (elements.count == 0) return chunks_->prepare({0, 0});
  if (read_order_ == ReadOrder::rectangles) {
    const std::uint64_t width = order_.count() / about_.shape[0];
    const std::uint64_t first = elements.first / width / about_.box[0];
    return chunks_->prepare({first, (elements.end() - 1) / width / about_.box[0] + 1 - first});
  }
  const std::uint64_t first = chunks_->number_of(order_.coordinates(elements.first));
  const std::uint64_t last = chunks_->number_of(order_.coordinates(elements.end() - 1));
  chunks_->prepare({first, last + 1 - first});
}

std::string Hdf5Source::describe_access() const {
  std::string text = chunks_ ? "" : "H5Dread, ";
  switch (about_.layout) {
    case H5D_CHUNKED:
      text += fmt::format("chunks {}", join(order_.box(), "x"));
      break;
    case H5D_COMPACT:
      text += "compact";
      break;
    case H5D_CONTIGUOUS:
      text += "contiguous";
      break;
    default:
      text += "virtual";
  }
  if (!about_.filters.empty()) text += ", filtered";
  if (chunks_) text += chunks_->decoding() ? ", parallel decoding" : ", parallel pread";
  if (about_.converted) {
    text += fmt::format(", {} to {}", about_.stored_as, name_of(about_.wanted));
  }
  return text;
}

/// Returns the whole file, since HDF5 is too slow to tell the bytes of each element.
std::optional<StoredBytes> Hdf5Source::stored(Range) const {
  struct stat status {};
  if (!stored_.valid() || ::fstat(stored_.get(), &status) != 0) return std::nullopt;
  return StoredBytes{&stored_, {0, static_cast<std::uint64_t>(status.st_size)}, false, false};
}

void Hdf5Source::read(std::uint64_t first, std::uint64_t count, std::byte* out) const {
  if (about_.delivered == about_.wanted) {
    read_delivered(first, count, out);
  } else {
    read_as_integers(first, count, out);
  }
}

void Hdf5Source::read_delivered(std::uint64_t first, std::uint64_t count, std::byte* out) const {
  const auto transfer = start_transfer();
  for (const auto& block : order_.blocks(first, count)) {
    const auto what = [&] { return elements_text({first, block.count}); };
    read_block(transfer, block.start, block.extent, 0, what, out);
    expect_sign(first, block.count, what, out);
    first += block.count;
    out += block.count * size_of(about_.delivered);
  }
}

/// Reads floats and converts them to integers, some at a time.
void Hdf5Source::read_as_integers(std::uint64_t first, std::uint64_t count, std::byte* out) const {
  std::vector<double> floats(std::min(count, max_floats));  // f32 takes half of it
  auto* const buffer = reinterpret_cast<std::byte*>(floats.data());
  while (count > 0) {
    const std::uint64_t piece = std::min(count, max_floats);
    read_delivered(first, piece, buffer);
    if (const auto complaint =
            to_integers(about_.delivered, buffer, about_.wanted, out, first, piece)) {
      fail_to_convert(elements_text({first, piece}), *complaint);
    }
    first += piece;
    count -= piece;
    out += piece * size_of(about_.wanted);
  }
}

void Hdf5Source::read_rectangle(Range rows, Range columns, std::byte* out,
                                std::uint64_t stride) const {
  expect_rectangle(rows, columns, stride);
  if (rows.count == 0 || columns.count == 0) return;
  const auto transfer = start_transfer();
  if (about_.delivered != about_.wanted) {
    return read_rectangle_as_integers(transfer, rows, columns, out, stride);
  }
  read_rectangle_delivered(transfer, rows, columns, out, stride / size_of(about_.delivered));
  for (std::uint64_t row = 0; row < rows.count; ++row) {
    const Range this_row{rows.first + row, 1};
    expect_sign(
        columns.first, columns.count, [&] { return rectangle_text(this_row, columns); },
        out + row * stride);
  }
}

void Hdf5Source::read_rectangle_delivered(const MaybeTransfer& transfer, Range rows, Range columns,
                                          std::byte* out, std::uint64_t pitch) const {
  Extents start{rows.first}, extent{rows.count};
  if (about_.shape.size() == 2) {
    start.push_back(columns.first);
    extent.push_back(columns.count);
  }
  read_block(
      transfer, start, extent, pitch, [&] { return rectangle_text(rows, columns); }, out);
}

/// The same for a rectangle, with as many rows at a time as read_as_integers() has elements. A
/// message on a value that does not fit contains its row and its column.
void Hdf5Source::read_rectangle_as_integers(const MaybeTransfer& transfer, Range rows,
                                            Range columns, std::byte* out,
                                            std::uint64_t stride) const {
  const std::uint64_t max_rows = std::max<std::uint64_t>(max_floats / columns.count, 1);
  std::vector<double> floats(std::min(max_rows, rows.count) * columns.count);
  auto* const buffer = reinterpret_cast<std::byte*>(floats.data());
  const std::uint64_t row_bytes = columns.count * size_of(about_.delivered);
  for (std::uint64_t done = 0; done < rows.count; done += max_rows) {
    const Range piece = intersection(rows, {rows.first + done, max_rows});
    read_rectangle_delivered(transfer, piece, columns, buffer, columns.count);
    for (std::uint64_t row = 0; row < piece.count; ++row) {
      if (const auto complaint =
              to_integers(about_.delivered, buffer + row * row_bytes, about_.wanted,
                          out + (done + row) * stride, columns.first, columns.count)) {
        fail_to_convert(rectangle_text({piece.first + row, 1}, columns), *complaint);
      }
    }
  }
}

/// Returns null if HDF5 is not needed to read or to convert.
MaybeTransfer Hdf5Source::start_transfer() const {
  if (chunks_ && about_.as_delivered) return nullptr;
  const hdf5::AtWork at_work(about_.name, hdf5::Stage::reading);
  const hdf5::Lock lock;
  return std::make_unique<const Hdf5Transfer>(dataset_, about_);
}

/// `pitch` is the pitch of a rectangle in memory in elements, or 0 for a dense block. `what`
/// describes the range for messages.
template <class What>
void Hdf5Source::read_block(const MaybeTransfer& transfer, const Extents& start,
                            const Extents& extent, std::uint64_t pitch, const What& what,
                            std::byte* out) const {
  if (!chunks_) {
    const auto complaint = transfer->read(start, extent, pitch, out, what);
    if (complaint) fail_to_convert(what(), *complaint);
    return;
  }
  const Extents dense = row_major_strides(extent);
  const std::uint64_t count = extent[0] * dense[0], element = size_of(about_.delivered);
  Extents wanted = dense;
  if (pitch > 0) wanted[0] = pitch;
  if (!transfer) {
    chunks_->read(start, extent, wanted, out);
    if (!about_.order_differs) return;
    for (std::uint64_t row = 0; row < extent[0]; ++row) {
      reverse_bytes(out + row * wanted[0] * element, dense[0], element);
    }
    return;
  }
  const AlignedBytes values(DirectFile::block(),
                            DirectFile::room(count * std::max(about_.stored_size, element)));
  chunks_->read(start, extent, dense, values.data());
  const auto complaint = transfer->convert(count, values.data(), what);
  if (complaint) fail_to_convert(what(), *complaint);
  for (std::uint64_t row = 0; row < extent[0]; ++row) {
    std::copy_n(values.data() + row * dense[0] * element, dense[0] * element,
                out + row * wanted[0] * element);
  }
}

/// Throws Error if the sign of one of `count` elements, numbered from `first`, was changed by
/// reading.
template <class What>
void Hdf5Source::expect_sign(std::uint64_t first, std::uint64_t count, const What& what,
                             const std::byte* values) const {
  if (!about_.sign_differs) return;
  if (const auto complaint = sign_change(about_.delivered, values, first, count)) {
    fail_to_convert(what(), *complaint);
  }
}

void Hdf5Source::fail_to_convert(const std::string& what, const std::string& complaint) const {
  // If even the natural type is too small (u64, f80), f64 has the range, though not the precision.
  const auto better = about_.wanted == about_.natural ? ElementType::f64 : about_.natural;
  const auto remedy = !misfit_remedy_.empty() ? misfit_remedy_
                      : better == about_.wanted
                          ? std::string("no input.type holds it")
                          : fmt::format("choose input.type = {}", name_of(better));
  throw Error(
      fmt::format("{} of {} ({}): {}: {}", what, about_.name, about_.stored_as, complaint, remedy));
}

}  // namespace

std::unique_ptr<Source> open_hdf5_source(const std::filesystem::path& file, std::string path,
                                         std::optional<ElementType> type, ReadWay way,
                                         ReadOrder read_order, Unwritten unwritten,
                                         const std::string& misfit_remedy, std::uint64_t rows) {
  const hdf5::AtWork at_work(file.string(), hdf5::Stage::opening);
  const hdf5::Lock lock;
  auto opened = open_input_file(file);
  if (path.empty()) path = only_dataset(opened, file.string());
  // This comes first, since HDF5 opens all files that a data set refers to.
  Origin origin = trace_origin(file, path, unwritten);
  auto dataset = open_dataset(opened, file.string(), path);
  auto about = describe(dataset, file.string() + ":" + path, type);
  about.may_have_gaps = origin.may_have_gaps;
  if (rows > 0) take_rows(about, rows);
  std::unique_ptr<Source> source;
  if (way != ReadWay::by_hdf5) source = try_direct(dataset, about, way);
  if (!source) {
    if (way == ReadWay::direct) {
      throw UsageError(
          fmt::format("{} is not contiguous or is converted, so it cannot be read directly: leave "
                      "input.read at auto, or store the data set contiguously and in the type "
                      "that is wanted",
                      about.name));
    }
    // The size of the chunk cache is set only by the first opening, so the data set must be closed.
    FollowedLinks links(cached_access(about, read_order));
    dataset.close();
    dataset = open_dataset(opened, file.string(), path, links);
    Descriptor stored(file_of(dataset), O_RDONLY);
    std::unique_ptr<ChunkReader> chunks;
    if (about.layout == H5D_CHUNKED && way != ReadWay::by_hdf5) {
      chunks = ChunkReader::open(dataset, chunks_of(about, read_order));
      if (!chunks) origin.warnings.push_back(decoded_by_hdf5(about));
    }
    source = std::make_unique<Hdf5Source>(std::move(opened), std::move(dataset), std::move(about),
                                          std::move(stored), std::move(chunks), read_order,
                                          misfit_remedy);
  }
  source->set_origin(std::move(origin));
  return source;
}

}  // namespace shardstream::io
