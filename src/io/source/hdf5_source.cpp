#include "io/source/hdf5_source.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/hdf5/conventions.hpp"
#include "io/hdf5/handles.hpp"
#include "io/hdf5/lookup.hpp"
#include "io/hdf5/stored_type.hpp"
#include "io/source/chunks/reader.hpp"
#include "io/source/contiguous_source.hpp"
#include "io/source/description.hpp"
#include "io/source/hdf5_transfer.hpp"
#include "kernels/data/convert.hpp"
#include "kernels/data/stored_value.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

/// The source that reads without HDF5. Null if HDF5 must read the bytes, since they are not
/// contiguous in this file, were never written (and have the fill value), or have a foreign format.
std::unique_ptr<Source> try_direct(const hdf5::Dataset& dataset, const DatasetDescription& about,
                                   ReadWay way, const std::string& misfit_remedy) {
  const hdf5::Properties creation(H5Dget_create_plist(dataset.get()),
                                  "cannot get the layout of " + about.name);
  ElementOrder order(about.shape, about.box);
  const std::uint64_t bytes =
      order.count() / about.shape[0] * about.stored_rows * about.record.size;
  if (about.layout != H5D_CONTIGUOUS || !about.filters.empty() || about.form.by_hdf5 ||
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
  return std::make_unique<ContiguousSource>(
      about.name, about.conversion, about.record, std::move(order),
      DatasetSource::Misfit{about.stored_as, misfit_remedy}, std::move(file), offset, way);
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
      "the ceiling decode is its rate (all readers decode deflate, lzf, shuffle and fletcher32: "
      "rewrite it with h5repack -f SHUF -f GZIP=1)",
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

class Hdf5Source final : public DatasetSource {
 public:
  /// `stored` is the file with the data set's bytes; it is invalid if that file cannot be opened.
  /// If `chunks` is null, HDF5 reads the data set.
  Hdf5Source(hdf5::File file, hdf5::Dataset dataset, DatasetDescription about, Descriptor stored,
             std::unique_ptr<ChunkReader> chunks, ReadOrder read_order, std::string misfit_remedy)
      : DatasetSource(about.name, about.conversion, ElementOrder(about.shape, about.box),
                      {about.stored_as, std::move(misfit_remedy)}),
        about_(std::move(about)),
        stored_(std::move(stored)),
        file_(std::move(file)),
        dataset_(std::move(dataset)),
        chunks_(std::move(chunks)),
        read_order_(read_order) {
    set_access(describe_access());
  }
  ~Hdf5Source() override;

  void prepare(Range elements) override;

  std::uint64_t stored_bytes() const override {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>(Wide{about_.stored_bytes} * about_.shape[0] /
                                      about_.stored_rows);
  }
  std::optional<Decoding> decoding() const override {
    return chunks_ ? chunks_->decoding() : std::nullopt;
  }
  std::optional<StoredBytes> stored(Range elements) const override;

 private:
  void fetch(std::uint64_t first, std::uint64_t count, std::byte* out) const override;
  void fetch_rectangle(Range rows, Range columns, std::byte* out,
                       std::uint64_t stride) const override;
  std::string describe_access() const;
  MaybeTransfer start_transfer() const;
  template <class What>
  void read_block(const MaybeTransfer& transfer, const Extents& start, const Extents& extent,
                  std::uint64_t pitch, const What& what, std::byte* out) const;
  template <class What>
  void read_stored_types(const MaybeTransfer& transfer, const Extents& start, const Extents& extent,
                         std::uint64_t pitch, const What& what, std::byte* out) const;
  template <class What>
  void read_records(const MaybeTransfer& transfer, const Extents& start, const Extents& extent,
                    std::uint64_t pitch, const What& what, std::byte* out) const;
  template <class What>
  void read_some_records(const MaybeTransfer& transfer, const Extents& start, const Extents& extent,
                         std::uint64_t row_bytes, const What& what, std::byte* out) const;
  [[noreturn]] void fail_to_convert(const std::string& what, const std::string& complaint) const;

  DatasetDescription about_;
  Descriptor stored_;
  hdf5::File file_;
  hdf5::Dataset dataset_;
  std::unique_ptr<ChunkReader> chunks_;
  ReadOrder read_order_;
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
    const std::uint64_t width = order().count() / about_.shape[0];
    const std::uint64_t first = elements.first / width / about_.box[0];
    return chunks_->prepare({first, (elements.end() - 1) / width / about_.box[0] + 1 - first});
  }
  const std::uint64_t first = chunks_->number_of(order().coordinates(elements.first));
  const std::uint64_t last = chunks_->number_of(order().coordinates(elements.end() - 1));
  chunks_->prepare({first, last + 1 - first});
}

std::string Hdf5Source::describe_access() const {
  std::string text = chunks_ ? "" : "H5Dread, ";
  switch (about_.layout) {
    case H5D_CHUNKED:
      text += fmt::format("chunks {}", join(order().box(), "x"));
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
  if (about_.form.by_hdf5) {
    text += fmt::format(", {} to {} by HDF5", about_.stored_as, name_of(about_.form.type));
  }
  return text;
}

/// Returns the whole file, since HDF5 is too slow to tell the bytes of each element.
std::optional<StoredBytes> Hdf5Source::stored(Range) const {
  struct stat status {};
  if (!stored_.valid() || ::fstat(stored_.get(), &status) != 0) return std::nullopt;
  return StoredBytes{&stored_, {0, static_cast<std::uint64_t>(status.st_size)}, false, false};
}

void Hdf5Source::fetch(std::uint64_t first, std::uint64_t count, std::byte* out) const {
  const auto transfer = start_transfer();
  for (const auto& block : order().blocks(first, count)) {
    const auto what = [&] { return elements_text({first, block.count}); };
    read_block(transfer, block.start, block.extent, 0, what, out);
    first += block.count;
    out += block.count * stored_size();
  }
}

void Hdf5Source::fetch_rectangle(Range rows, Range columns, std::byte* out,
                                 std::uint64_t stride) const {
  Extents start{rows.first}, extent{rows.count};
  if (about_.shape.size() == 2) {
    start.push_back(columns.first);
    extent.push_back(columns.count);
  }
  read_block(
      start_transfer(), start, extent, stride / stored_size(),
      [&] { return rectangle_text(rows, columns); }, out);
}

/// Returns null if HDF5 is not needed to read or to convert.
MaybeTransfer Hdf5Source::start_transfer() const {
  if (chunks_ && !about_.form.by_hdf5) return nullptr;
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
  if (!about_.member.empty() || (chunks_ && about_.form.by_hdf5)) {
    return read_records(transfer, start, extent, pitch, what, out);
  }
  read_stored_types(transfer, start, extent, pitch, what, out);
}

/// Reads elements as they are in chunks, or as H5Dread delivers them.
template <class What>
void Hdf5Source::read_stored_types(const MaybeTransfer& transfer, const Extents& start,
                                   const Extents& extent, std::uint64_t pitch, const What& what,
                                   std::byte* out) const {
  if (!chunks_) {
    const auto complaint = transfer->read(start, extent, pitch, out, what);
    if (complaint) fail_to_convert(what(), *complaint);
    return;
  }
  Extents wanted = row_major_strides(extent);
  if (pitch > 0) wanted[0] = pitch;
  chunks_->read(start, extent, wanted, out);
}

/// Reads records, or chunks of a format that HDF5 converts, to memory first. Records may be much
/// larger than elements, so only some of them are in memory at a time.
template <class What>
void Hdf5Source::read_records(const MaybeTransfer& transfer, const Extents& start,
                              const Extents& extent, std::uint64_t pitch, const What& what,
                              std::byte* out) const {
  constexpr std::uint64_t max_bytes = std::uint64_t{64} << 20;
  const std::uint64_t width = row_major_strides(extent)[0];
  const std::uint64_t row_bytes = (pitch > 0 ? pitch : width) * stored_size();
  const std::uint64_t rows = std::max<std::uint64_t>(1, max_bytes / (width * about_.stored_size));
  for (std::uint64_t done = 0; done < extent[0]; done += rows) {
    Extents first = start, some = extent;
    first[0] += done;
    some[0] = std::min(rows, extent[0] - done);
    read_some_records(transfer, first, some, row_bytes, what, out + done * row_bytes);
  }
}

/// `row_bytes` is the pitch of the rows in memory.
template <class What>
void Hdf5Source::read_some_records(const MaybeTransfer& transfer, const Extents& start,
                                   const Extents& extent, std::uint64_t row_bytes, const What& what,
                                   std::byte* out) const {
  const std::uint64_t width = row_major_strides(extent)[0], element = stored_size();
  const std::uint64_t count = extent[0] * width;
  const auto room = [&](std::uint64_t bytes) {
    return AlignedBytes(DirectFile::block(), DirectFile::room(count * std::max(bytes, element)));
  };
  AlignedBytes values = room(about_.stored_size);
  read_stored_types(transfer, start, extent, 0, what, values.data());
  if (!about_.member.empty()) {
    const std::uint64_t size = transfer ? transfer->number_size() : element;
    AlignedBytes members = room(size);
    gather(values.data(), about_.record, size, count, members.data());
    values = std::move(members);
  }
  if (about_.form.by_hdf5) {
    const auto complaint = transfer->convert(count, values.data(), what);
    if (complaint) fail_to_convert(what(), *complaint);
  }
  for (std::uint64_t row = 0; row < extent[0]; ++row) {
    std::copy_n(values.data() + row * width * element, width * element, out + row * row_bytes);
  }
}

void Hdf5Source::fail_to_convert(const std::string& what, const std::string& complaint) const {
  throw Error(fmt::format("{} of {} ({}): {}: no input.type holds it", what, about_.name,
                          about_.stored_as, complaint));
}

/// The type of the elements if the request has none.
ElementType element_type(const Conversion& conversion, bool missing_as_nan) {
  if (const auto unpacked = unpacked_type(conversion.unpacking)) return *unpacked;
  const bool needs_nan = missing_as_nan && conversion.missing.any() && !is_float(conversion.from);
  if (needs_nan) return ElementType::f64;
  // Matrix products subtract means from i64 without rounding, but not from u64.
  if (missing_as_nan && conversion.from == StoredType::u64) return ElementType::i64;
  return natural_type(conversion.from);
}

/// Sets the type of the elements and, if it is a type of integers, the one that stands for missing
/// values.
void choose_elements(const DatasetRequest& request, DatasetDescription& about) {
  Conversion& conversion = about.conversion;
  conversion.to = request.type.value_or(element_type(conversion, request.missing_as_nan));
  const bool is_integer = conversion.to != ElementType::f32 && conversion.to != ElementType::f64;
  if (!is_integer || !conversion.missing.any()) return;
  if (request.missing_as_nan) {
    throw UsageError(fmt::format(
        "{} has missing values, which become NaN here, and {} has none: choose input.type = f64 or "
        "f32, or take values as they are stored with input.conventions = none",
        about.name, name_of(conversion.to)));
  }
  if (!always_fits(conversion)) {
    throw UsageError(
        fmt::format("{} has missing values, for which {} has no room: choose input.type = {}",
                    about.name, name_of(conversion.to), name_of(element_type(conversion, false))));
  }
  const std::uint64_t stored = missing_element(conversion.missing, conversion.from).value();
  const Conversion plain{.from = conversion.from, .to = conversion.to};
  convert(plain, reinterpret_cast<const std::byte*>(&stored), 1,
          reinterpret_cast<std::byte*>(&conversion.missing_element));
}

/// Completes about.conversion, besides its elements, by the attributes of the data set. Returns the
/// names of those that are applied.
std::vector<std::string> apply_conventions(const hdf5::Dataset& dataset, DatasetDescription& about,
                                           Origin& origin) {
  Conventions found = read_conventions(dataset, about.form.type, about.name);
  Conversion& conversion = about.conversion;
  conversion.from = found.type;
  conversion.missing = found.missing;
  conversion.unpacking = found.unpacking;
  std::ranges::move(found.warnings, std::back_inserter(origin.warnings));
  return std::move(found.applied);
}

}  // namespace

std::unique_ptr<Source> open_hdf5_source(const std::filesystem::path& file, std::string path,
                                         const DatasetRequest& request) {
  const hdf5::AtWork at_work(file.string(), hdf5::Stage::opening);
  const hdf5::Lock lock;
  auto opened = open_input_file(file);
  if (path.empty()) path = only_dataset(opened, file.string());
  const DatasetName name = resolve_braces(opened, dataset_name(file.string() + ":" + path));
  path = name.path;
  // This comes first, since HDF5 opens all files that a data set refers to.
  Origin origin = trace_origin(file, path, request.unwritten);
  auto dataset = open_dataset(opened, file.string(), path);
  auto about = describe(dataset, file.string() + ":" + name.path_and_member(), name.member);
  if (request.conventions) {
    apply_attributes(origin, apply_conventions(dataset, about, origin), about.name);
  }
  choose_elements(request, about);
  about.may_have_gaps = origin.may_have_gaps;
  if (request.rows > 0) take_rows(about, request.rows);
  std::unique_ptr<Source> source;
  if (request.way != ReadWay::by_hdf5) {
    source = try_direct(dataset, about, request.way, request.misfit_remedy);
  }
  if (!source) {
    if (request.way == ReadWay::direct) {
      throw UsageError(
          fmt::format("{} is not contiguous or has a format that only HDF5 knows, so it cannot be "
                      "read directly: leave input.read at auto, or store the data set contiguously",
                      about.name));
    }
    // The size of the chunk cache is set only by the first opening, so the data set must be closed.
    FollowedLinks links(cached_access(about, request.order));
    dataset.close();
    dataset = open_dataset(opened, file.string(), path, links);
    Descriptor stored(file_of(dataset), O_RDONLY);
    std::unique_ptr<ChunkReader> chunks;
    if (about.layout == H5D_CHUNKED && request.way != ReadWay::by_hdf5) {
      chunks = ChunkReader::open(dataset, chunks_of(about, request.order));
      if (!chunks) origin.warnings.push_back(decoded_by_hdf5(about));
    }
    source = std::make_unique<Hdf5Source>(std::move(opened), std::move(dataset), std::move(about),
                                          std::move(stored), std::move(chunks), request.order,
                                          request.misfit_remedy);
  }
  source->set_origin(std::move(origin));
  return source;
}

}  // namespace shardstream::io
