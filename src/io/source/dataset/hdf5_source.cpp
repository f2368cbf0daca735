#include "io/source/dataset/hdf5_source.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/hdf5/dimensions.hpp"
#include "io/hdf5/handles.hpp"
#include "io/hdf5/lookup.hpp"
#include "io/source/dataset/hdf5_transfer.hpp"
#include "io/source/selection.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

std::uint64_t chunks_in(const DatasetDescription& about) {
  std::uint64_t count = 1;
  for (std::size_t d = 0; d < about.box.size(); ++d) {
    count = saturating_product(count, ceil_div(about.shape[d], about.box[d]));
  }
  return count;
}

/// The bytes of a cache for a few chunks, so that a chunk that several reads share is decoded once.
/// For blocks, which may be as wide as the data set, the cache holds a band of chunks, up to a
/// limit.
std::size_t cache_of(const DatasetDescription& about, ReadOrder read_order) {
  if (about.layout != H5D_CHUNKED) return 0;
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  std::size_t chunk = about.stored_size;
  for (const auto extent : about.box) chunk *= extent;
  const std::size_t bytes =
      std::max({16 * mebibyte, std::min(4 * chunk, 64 * mebibyte), 2 * chunk});
  if (read_order == ReadOrder::elements) return bytes;
  std::uint64_t chunks = 1;
  for (std::size_t d = 1; d < about.box.size(); ++d) {
    chunks = saturating_product(chunks, ceil_div(about.shape[d], about.box[d]));
  }
  const std::size_t band = saturating_product(chunks + 1, chunk);
  return std::max(bytes, std::min(band, 256 * mebibyte));
}

/// Access properties with this cache. Chunks that have been read completely are evicted first.
hdf5::Properties cached_access(const DatasetDescription& about, ReadOrder read_order) {
  hdf5::Properties access(H5Pcreate(H5P_DATASET_ACCESS), "cannot make data set properties");
  if (about.layout != H5D_CHUNKED) return access;
  constexpr std::size_t slots = 10'007;  // a prime
  check(H5Pset_chunk_cache(access.get(), slots, cache_of(about, read_order), 1.0),
        "cannot size the chunk cache");
  return access;
}

/// Matrices take u64 as i64 without a request, so the usual advice, input.type = u64, would make
/// many of them impossible.
DatasetSource::Misfit misfit_of(const DatasetPlan& plan, const DatasetRequest& request) {
  const bool is_matrix_of_u64 =
      request.missing_as_nan && plan.about.conversion.from == StoredType::u64;
  return {plan.about.stored_as, request.misfit_remedy.empty() && is_matrix_of_u64
                                    ? "choose input.type = f64"
                                    : request.misfit_remedy};
}

using MaybeTransfer = std::unique_ptr<const Hdf5Transfer>;

class Hdf5Source final : public DatasetSource {
 public:
  /// Needs the lock. The other arguments are those of open_planned().
  Hdf5Source(const DatasetPlan& plan, const DatasetRequest& request,
             std::shared_ptr<DecodingMemory> memory, hdf5::File opened)
      : DatasetSource(plan.about.name, plan.about.conversion, plan.about.dimensions, plan.about.box,
                      misfit_of(plan, request)),
        about_(plan.about),
        read_order_(request.order),
        file_(std::move(opened)) {
    set_access(access_of(plan));
    if (plan.chunks) {
      chunks_.emplace(layout_of(about_, read_order_, std::move(memory)), *plan.chunks);
      if (!about_.form.by_hdf5) return;
    }
    if (!file_.valid()) file_ = open_input_file(plan.file);
    FollowedLinks links(cached_access(about_, read_order_));
    dataset_ = open_dataset(file_, plan.file.string(), plan.path, links);
    if (!chunks_) stored_ = Descriptor(plan.holder, O_RDONLY);
  }
  ~Hdf5Source() override;

  void prepare(Range elements) override;

  std::uint64_t stored_bytes() const override { return selected_bytes(about_); }
  std::optional<Decoding> decoding() const override {
    return chunks_ ? chunks_->decoding() : std::nullopt;
  }
  std::optional<FileReads> file_reads() const override {
    if (!stored_file().valid()) return std::nullopt;
    return FileReads{.is_exact = false, .past_cache = false};
  }
  void visit_stored(Range elements, const UseBytes& use) const override;

 private:
  void fetch(std::uint64_t first, std::uint64_t count, std::byte* out) const override;
  void fetch_block(const Extents& start, const Extents& extent, const Pitches& pitch,
                   std::byte* out) const override {
    fetch_block(start_transfer(), start, extent, pitch, out);
  }
  void fetch_block(const MaybeTransfer& transfer, const Extents& start, const Extents& extent,
                   const Pitches& pitch, std::byte* out) const;
  /// The file with the data set's bytes; invalid if it cannot be opened.
  const Descriptor& stored_file() const { return chunks_ ? chunks_->file() : stored_; }
  MaybeTransfer start_transfer() const;
  void fetch_dense(const MaybeTransfer& transfer, const Extents& start, const Extents& extent,
                   std::byte* out) const;
  void fetch_values(const MaybeTransfer& transfer, const Extents& start, const Extents& extent,
                    std::byte* out) const;
  void expect_converted(const std::optional<std::string>& complaint) const;

  DatasetDescription about_;
  ReadOrder read_order_;
  // HDF5 reads the data set from this file, or is not needed if it is not open.
  hdf5::File file_;
  hdf5::Dataset dataset_;
  Descriptor stored_;
  std::optional<ChunkReader> chunks_;
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
  if (read_order_ == ReadOrder::blocks) {
    const std::uint64_t width = count() / order().shape()[0], chunk = about_.box[0];
    const Axis& axis = order().selection()[0];
    const std::uint64_t first = axis[elements.first / width] / chunk;
    return chunks_->prepare({first, axis[(elements.end() - 1) / width] / chunk + 1 - first});
  }
  const std::uint64_t first = chunks_->number_of(order().coordinates(elements.first));
  const std::uint64_t last = chunks_->number_of(order().coordinates(elements.end() - 1));
  chunks_->prepare({first, last + 1 - first});
}

/// Passes the whole file, since HDF5 is too slow to tell the bytes of each element.
void Hdf5Source::visit_stored(Range, const UseBytes& use) const {
  struct stat status {};
  const Descriptor& file = stored_file();
  if (!file.valid() || ::fstat(file.get(), &status) != 0) return;
  use(file, {0, static_cast<std::uint64_t>(status.st_size)});
}

/// Returns null if HDF5 is not needed to read or to convert.
MaybeTransfer Hdf5Source::start_transfer() const {
  if (chunks_ && !about_.form.by_hdf5) return nullptr;
  const hdf5::AtWork at_work(about_.name, hdf5::Stage::reading);
  const hdf5::Lock lock;
  return std::make_unique<const Hdf5Transfer>(dataset_, about_);
}

/// One transfer serves all blocks.
void Hdf5Source::fetch(std::uint64_t first, std::uint64_t count, std::byte* out) const {
  const auto transfer = start_transfer();
  for (const auto& block : order().blocks(first, count)) {
    fetch_block(transfer, block.start, block.extent, dense_pitches(block.extent, stored_size()),
                out);
    out += block.count * stored_size();
  }
}

/// Reads chunks directly to their places. Other elements are read to memory first, unless they are
/// dense there.
void Hdf5Source::fetch_block(const MaybeTransfer& transfer, const Extents& start,
                             const Extents& extent, const Pitches& pitch, std::byte* out) const {
  if (!transfer && about_.member.empty()) return chunks_->read(start, extent, pitch, out);
  // Records may be much larger than elements, so only some of them are in memory at a time.
  constexpr std::uint64_t max_bytes = std::uint64_t{64} << 20;
  const std::uint64_t some = std::max<std::uint64_t>(1, max_bytes / about_.stored_size);
  const std::uint64_t count = saturating_product(extent), element = stored_size();
  const ElementOrder inside(extent, extent);
  for (std::uint64_t first = 0; first < count; first += some) {
    for (const auto& block : inside.blocks(first, std::min(some, count - first))) {
      Extents from = start;
      for (std::size_t d = 0; d < from.size(); ++d) from[d] += block.start[d];
      std::byte* const to = out + offset_of(block.start, pitch);
      if (is_dense(block.extent, pitch, element)) {
        fetch_dense(transfer, from, block.extent, to);
        continue;
      }
      std::vector<std::byte> dense(block.count * element);
      fetch_dense(transfer, from, block.extent, dense.data());
      copy_block(block.extent, element, dense.data(), dense_pitches(block.extent, element), to,
                 pitch);
    }
  }
}

/// Writes the elements of a block to `out`, taken out of their records and in a form that this
/// program knows.
void Hdf5Source::fetch_dense(const MaybeTransfer& transfer, const Extents& start,
                             const Extents& extent, std::byte* out) const {
  const bool by_hdf5 = about_.form.by_hdf5 && (chunks_ || !about_.member.empty());
  if (about_.member.empty() && !by_hdf5) return fetch_values(transfer, start, extent, out);
  const std::uint64_t count = saturating_product(extent), element = stored_size();
  const std::uint64_t size = transfer ? transfer->number_size() : element;
  const auto room = [&](std::uint64_t bytes) {
    return AlignedBytes(DirectFile::block(), DirectFile::room(count * std::max(bytes, element)));
  };
  AlignedBytes values = room(about_.stored_size);
  fetch_values(transfer, start, extent, values.data());
  if (!about_.member.empty()) {
    AlignedBytes members = room(size);
    copy_block({count}, size, values.data() + about_.record.offset, {about_.record.size},
               members.data(), {size});
    values = std::move(members);
  }
  if (by_hdf5) expect_converted(transfer->convert(count, values.data()));
  std::copy_n(values.data(), count * element, out);
}

/// Writes a block to `out`, dense, as it is in chunks or as H5Dread delivers it.
void Hdf5Source::fetch_values(const MaybeTransfer& transfer, const Extents& start,
                              const Extents& extent, std::byte* out) const {
  if (chunks_) {
    return chunks_->read(start, extent, dense_pitches(extent, about_.stored_size), out);
  }
  Extents from = start, step(start.size(), 1);
  for (std::size_t d = 0; d < from.size(); ++d) {
    from[d] = dimensions()[d].axis[start[d]];
    step[d] = dimensions()[d].axis.step;
  }
  expect_converted(transfer->read(from, step, extent, out));
}

void Hdf5Source::expect_converted(const std::optional<std::string>& complaint) const {
  if (!complaint) return;
  throw Error(fmt::format("{} ({}) cannot be read: {}: no input.type holds it", about_.name,
                          about_.stored_as, *complaint));
}

/// Limits the plan to the elements that its name and the request select. They become a part of its
/// name.
void select(DatasetPlan& plan, const hdf5::File& opened, std::uint64_t rows) {
  DatasetDescription& about = plan.about;
  if (plan.selection) {
    const auto dataset = open_dataset(opened, plan.file.string(), plan.path);
    const Selection chosen = resolve(
        SelectionText::parse(*plan.selection), dimensions_of(dataset, about.name),
        [&](std::size_t d) { return read_coordinates(dataset, d, about.name); }, about.name,
        &plan.origin.beyond);
    for (std::size_t d = 0; d < chosen.size(); ++d) about.dimensions[d].axis = chosen[d];
    if (!chosen.empty()) about.name += text_of(chosen, about.shape);  // a scalar has no axes
  }
  if (rows > 0) take_rows(about.dimensions, rows, about.name);
}

}  // namespace

std::unique_ptr<DatasetSource> open_planned(const DatasetPlan& plan, const DatasetRequest& request,
                                            std::shared_ptr<DecodingMemory> memory,
                                            hdf5::File opened) {
  const DatasetDescription& about = plan.about;
  if (plan.offset) {
    Descriptor file(plan.holder, O_RDONLY);
    if (!file.valid()) {
      throw Error(fmt::format("cannot open '{}' ({})", plan.holder, errno_text(errno)));
    }
    return std::make_unique<ContiguousSource>(
        about.name, about.conversion, about.dimensions, misfit_of(plan, request),
        StoredRecords{std::move(file), *plan.offset, about.record}, request.way);
  }
  const hdf5::AtWork at_work(about.name, hdf5::Stage::opening);
  const hdf5::Lock lock;
  return std::make_unique<Hdf5Source>(plan, request, std::move(memory), std::move(opened));
}

OpeningCost cost_of_opening(const DatasetPlan& plan, ReadOrder order) {
  if (plan.offset) return {.descriptors = 2, .bytes = std::uint64_t{4} << 10};
  std::uint64_t bytes = std::uint64_t{768} << 10;  // mostly HDF5's table of cached metadata
  if (plan.chunks) bytes += ChunkIndex::bytes_of(chunks_in(plan.about));
  if (plan.chunks && !plan.about.form.by_hdf5) return {.descriptors = 2, .bytes = bytes};
  return {.descriptors = plan.origin.files.size() + 3,
          .bytes = bytes + cache_of(plan.about, order)};
}

std::unique_ptr<Source> open_hdf5_source(const std::filesystem::path& file, std::string path,
                                         const DatasetRequest& request) {
  const hdf5::AtWork at_work(file.string(), hdf5::Stage::opening);
  const hdf5::Lock lock;
  auto opened = open_input_file(file);
  DatasetPlan plan = plan_dataset(opened, file, std::move(path), request);
  select(plan, opened, request.rows);
  std::unique_ptr<Source> source =
      open_planned(plan, request, std::make_shared<DecodingMemory>(), std::move(opened));
  source->set_origin(std::move(plan.origin));
  return source;
}

}  // namespace shardstream::io
