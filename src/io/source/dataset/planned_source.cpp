#include "io/source/dataset/planned_source.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/source/chunks/reader.hpp"
#include "io/source/selection.hpp"

namespace shardstream::io {
namespace {

/// The bytes of a cache for a few chunks, so that a chunk that several reads share is decoded once.
/// For blocks, which may be as wide as the data set, the cache holds a band of chunks, up to a
/// limit.
std::size_t cache_of(const Description& about, ReadOrder read_order) {
  if (about.layout != Layout::chunked) return 0;
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  std::size_t chunk = about.record.size;
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

/// Matrices take u64 as i64 without a request, so the usual advice, input.type = u64, would make
/// many of them impossible.
DatasetSource::Misfit misfit_of(const DatasetPlan& plan, const DatasetRequest& request) {
  const bool is_matrix_of_u64 = request.missing_as_nan && plan.conversion.from == StoredType::u64;
  return {plan.about.stored_as, request.misfit_remedy.empty() && is_matrix_of_u64
                                    ? "choose input.type = f64"
                                    : request.misfit_remedy};
}

using MaybeLibrary = std::unique_ptr<const LibraryReader>;

/// A data set of which readers decode the chunks, or which the library of its format reads.
class BlockSource final : public DatasetSource {
 public:
  /// The arguments are those of open_planned().
  BlockSource(const DatasetPlan& plan, const DatasetRequest& request,
              std::shared_ptr<DecodingMemory> memory, std::unique_ptr<OpenFile> opened)
      : DatasetSource(plan.about.name, plan.conversion, plan.dimensions, plan.about.box,
                      misfit_of(plan, request)),
        about_(plan.about),
        selected_bytes_(selected_bytes(plan)),
        read_order_(request.order),
        file_(std::move(opened)) {
    set_access(access_of(plan));
    if (plan.filters) {
      chunks_.emplace(layout_of(plan, read_order_, std::move(memory)),
                      ChunkCoding{*plan.filters, about_.filters_edges, about_.fill},
                      about_.format->open_chunks(about_));
      if (!about_.form.by_library) return;
    }
    if (!file_) file_ = open_data_file(plan.file);
    data_ = file_->open_data(plan.path, about_, cache_of(about_, read_order_));
    if (!chunks_) stored_ = Descriptor(about_.place.file, O_RDONLY);
  }

  void prepare(Range elements) override;

  std::uint64_t stored_bytes() const override { return selected_bytes_; }
  std::optional<Decoding> decoding() const override {
    return chunks_ ? chunks_->decoding() : std::nullopt;
  }
  std::optional<FileReads> file_reads() const override {
    if (!chunks_ && !stored_.valid()) return std::nullopt;
    return FileReads{.is_exact = false, .past_cache = false};
  }
  void visit_stored(Range elements, const UseBytes& use) const override;

 private:
  void fetch(std::uint64_t first, std::uint64_t count, std::byte* out) const override;
  void fetch_block(const Extents& start, const Extents& extent, const Pitches& pitch,
                   std::byte* out) const override {
    fetch_block(start_reading(), start, extent, pitch, out);
  }
  void fetch_block(const MaybeLibrary& library, const Extents& start, const Extents& extent,
                   const Pitches& pitch, std::byte* out) const;
  MaybeLibrary start_reading() const;
  void fetch_dense(const MaybeLibrary& library, const Extents& start, const Extents& extent,
                   std::byte* out) const;
  void fetch_values(const MaybeLibrary& library, const Extents& start, const Extents& extent,
                    std::byte* out) const;
  void expect_converted(const std::optional<std::string>& complaint) const;

  Description about_;
  std::uint64_t selected_bytes_;
  ReadOrder read_order_;
  std::unique_ptr<OpenFile> file_;
  std::unique_ptr<LibraryData> data_;  // null if the library is not needed
  Descriptor stored_;  // the file of a data set that only the library reads; may be invalid
  std::optional<ChunkReader> chunks_;
};

void BlockSource::prepare(Range elements) {
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

/// Passes whole files, since a library is too slow to tell the bytes of each element.
void BlockSource::visit_stored(Range, const UseBytes& use) const {
  const auto use_file = [&](const Descriptor& file) {
    struct stat status {};
    if (!file.valid() || ::fstat(file.get(), &status) != 0) return;
    use(file, {0, static_cast<std::uint64_t>(status.st_size)});
  };
  chunks_ ? chunks_->store().visit_files(use_file) : use_file(stored_);
}

/// Returns null if the library is not needed to read or to convert.
MaybeLibrary BlockSource::start_reading() const {
  return data_ ? data_->start() : nullptr;
}

/// One reader serves all blocks.
void BlockSource::fetch(std::uint64_t first, std::uint64_t count, std::byte* out) const {
  const auto library = start_reading();
  for (const auto& block : order().blocks(first, count)) {
    fetch_block(library, block.start, block.extent, dense_pitches(block.extent, stored_size()),
                out);
    out += block.count * stored_size();
  }
}

/// Reads chunks directly to their places. Other elements are read to memory first, unless they are
/// dense there.
void BlockSource::fetch_block(const MaybeLibrary& library, const Extents& start,
                              const Extents& extent, const Pitches& pitch, std::byte* out) const {
  if (!library && about_.member.empty()) return chunks_->read(start, extent, pitch, out);
  // Records may be much larger than elements, so only some of them are in memory at a time.
  constexpr std::uint64_t max_bytes = std::uint64_t{64} << 20;
  const std::uint64_t some = std::max<std::uint64_t>(1, max_bytes / about_.record.size);
  const std::uint64_t count = saturating_product(extent), element = stored_size();
  const ElementOrder inside(extent, extent);
  for (std::uint64_t first = 0; first < count; first += some) {
    for (const auto& block : inside.blocks(first, std::min(some, count - first))) {
      Extents from = start;
      for (std::size_t d = 0; d < from.size(); ++d) from[d] += block.start[d];
      std::byte* const to = out + offset_of(block.start, pitch);
      if (is_dense(block.extent, pitch, element)) {
        fetch_dense(library, from, block.extent, to);
        continue;
      }
      std::vector<std::byte> dense(block.count * element);
      fetch_dense(library, from, block.extent, dense.data());
      copy_block(block.extent, element, dense.data(), dense_pitches(block.extent, element), to,
                 pitch);
    }
  }
}

/// Writes the elements of a block to `out`, taken out of their records and in a form that this
/// program knows.
void BlockSource::fetch_dense(const MaybeLibrary& library, const Extents& start,
                              const Extents& extent, std::byte* out) const {
  const bool by_library = about_.form.by_library && (chunks_ || !about_.member.empty());
  if (about_.member.empty() && !by_library) return fetch_values(library, start, extent, out);
  const std::uint64_t count = saturating_product(extent), element = stored_size();
  const std::uint64_t size = library ? library->element_size() : element;
  const auto room = [&](std::uint64_t bytes) {
    return AlignedBytes(DirectFile::block(), DirectFile::room(count * std::max(bytes, element)));
  };
  AlignedBytes values = room(about_.record.size);
  fetch_values(library, start, extent, values.data());
  if (!about_.member.empty()) {
    AlignedBytes members = room(size);
    copy_block({count}, size, values.data() + about_.record.offset, {about_.record.size},
               members.data(), {size});
    values = std::move(members);
  }
  if (by_library) expect_converted(library->convert(count, values.data()));
  std::copy_n(values.data(), count * element, out);
}

/// Writes a block to `out`, dense, as it is in chunks or as the library delivers it.
void BlockSource::fetch_values(const MaybeLibrary& library, const Extents& start,
                               const Extents& extent, std::byte* out) const {
  if (chunks_) {
    return chunks_->read(start, extent, dense_pitches(extent, about_.record.size), out);
  }
  Extents from = start, step(start.size(), 1);
  for (std::size_t d = 0; d < from.size(); ++d) {
    from[d] = dimensions()[d].axis[start[d]];
    step[d] = dimensions()[d].axis.step;
  }
  expect_converted(library->read(from, step, extent, out));
}

void BlockSource::expect_converted(const std::optional<std::string>& complaint) const {
  if (!complaint) return;
  throw Error(fmt::format("{} ({}) cannot be read: {}: no input.type holds it", about_.name,
                          about_.stored_as, *complaint));
}

/// Limits the plan to the elements that its name and the request select. They become a part of its
/// name.
void select(DatasetPlan& plan, const OpenFile& opened, std::uint64_t rows) {
  Description& about = plan.about;
  if (plan.selection) {
    const auto dataset = opened.open(plan.path, about.name);
    const Selection chosen = resolve(
        SelectionText::parse(*plan.selection), about.dimensions,
        [&](std::size_t d) { return dataset->coordinates(d); }, about.name, &plan.origin.beyond);
    for (std::size_t d = 0; d < chosen.size(); ++d) plan.dimensions[d].axis = chosen[d];
    if (!chosen.empty()) about.name += text_of(chosen, about.shape);  // a scalar has no axes
  }
  if (rows > 0) take_rows(plan.dimensions, rows, about.name);
}

}  // namespace

std::unique_ptr<DatasetSource> open_planned(const DatasetPlan& plan, const DatasetRequest& request,
                                            std::shared_ptr<DecodingMemory> memory,
                                            std::unique_ptr<OpenFile> opened) {
  if (!plan.offset) {
    return std::make_unique<BlockSource>(plan, request, std::move(memory), std::move(opened));
  }
  const std::string& holder = plan.about.place.file;
  Descriptor file(holder, O_RDONLY);
  if (!file.valid()) throw Error(fmt::format("cannot open '{}' ({})", holder, errno_text(errno)));
  return std::make_unique<ContiguousSource>(
      plan.about.name, plan.conversion, plan.dimensions, misfit_of(plan, request),
      StoredRecords{std::move(file), *plan.offset, plan.about.record}, request.way);
}

OpeningCost cost_of_opening(const DatasetPlan& plan, ReadOrder order) {
  if (plan.offset) return {.descriptors = 2, .bytes = std::uint64_t{4} << 10};
  const Format& format = *plan.about.format;
  std::uint64_t bytes = format.open_bytes;
  if (plan.filters) bytes += format.chunk_store_bytes(chunks_in(plan.about));
  if (plan.filters && !plan.about.form.by_library) return {.descriptors = 2, .bytes = bytes};
  return {.descriptors = plan.origin.files.size() + 3,
          .bytes = bytes + cache_of(plan.about, order)};
}

std::unique_ptr<Source> open_dataset_source(const std::filesystem::path& file, std::string path,
                                            const DatasetRequest& request) {
  auto opened = open_data_file(file);
  DatasetPlan plan = plan_dataset(*opened, file, std::move(path), request);
  select(plan, *opened, request.rows);
  std::unique_ptr<Source> source =
      open_planned(plan, request, std::make_shared<DecodingMemory>(), std::move(opened));
  source->set_origin(std::move(plan.origin));
  return source;
}

}  // namespace shardstream::io
