#include "io/source/chunks/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::io {
namespace {

Extents grid_of(const ChunkLayout& layout) {
  Extents grid;
  for (std::size_t d = 0; d < layout.chunk.size(); ++d) {
    grid.push_back(ceil_div(layout.shape[d], layout.chunk[d]));
  }
  return grid;
}

/// The number of decoded chunks that are kept for later reads. It is larger than that of HDF5's
/// cache, since readers also decode ahead. For blocks, a whole band is kept, since the next block
/// reads from the same chunks.
std::uint64_t chunks_kept(const ChunkLayout& layout) {
  const std::uint64_t bytes = saturating_product(layout.chunk) * layout.element;
  std::uint64_t band = layout.read_order == ReadOrder::blocks ? 1 : 0;
  for (std::size_t d = 1; d < layout.chunk.size(); ++d) {
    const Axis& axis = layout.selection[d];
    const std::uint64_t spanned = axis.last() / layout.chunk[d] - axis.first / layout.chunk[d] + 1;
    band = saturating_product(band, std::min(spanned, axis.count));
  }
  return std::max<std::uint64_t>(
      2, std::min(layout.memory->max_bytes() / bytes, std::max<std::uint64_t>(32, band + 1)));
}

/// The selected indices [first, first + count) along one dimension that lie in one chunk.
struct Cut {
  std::uint64_t chunk;
  Range selected;
};

/// Divides selected indices by chunks. Chunks without selected indices are left out.
std::vector<Cut> cuts_of(const Axis& axis, std::uint64_t chunk, Range selected) {
  std::vector<Cut> cuts;
  for (std::uint64_t first = selected.first; first < selected.end();) {
    const std::uint64_t number = axis[first] / chunk;
    const std::uint64_t end = std::min(selected.end(), axis.count_below((number + 1) * chunk));
    cuts.push_back({number, {first, end - first}});
    first = end;
  }
  return cuts;
}

}  // namespace

ChunkReader::ChunkReader(ChunkLayout layout, ChunkCoding coding,
                         std::unique_ptr<const ChunkStore> store)
    : layout_(std::move(layout)),
      coding_(std::move(coding)),
      grid_(grid_of(layout_)),
      pitch_(dense_pitches(layout_.chunk, layout_.element)),
      step_(pitch_),
      chunk_bytes_(saturating_product(layout_.chunk) * layout_.element),
      chunk_elements_(saturating_product(layout_.chunk)),
      store_(std::move(store)),
      decoded_(chunks_kept(layout_), chunk_bytes_, layout_.memory) {
  for (std::size_t d = 0; d < step_.size(); ++d) step_[d] *= layout_.selection[d].step;
}

std::optional<Decoding> ChunkReader::decoding_of(const ChunkLayout& layout,
                                                 const ChunkFilters& filters) {
  if (filters.skips_all(0)) return std::nullopt;
  const std::uint64_t chunk = saturating_product(layout.chunk) * layout.element;
  // A reader has a chunk in three forms (stored, inflated, unshuffled), and one for other readers.
  return Decoding{.shared = chunks_kept(layout) * chunk, .per_reader = 4 * chunk};
}

std::uint64_t ChunkReader::chunks_in_a_band() const {
  return saturating_product(std::span(grid_).subspan(1));
}

std::uint64_t ChunkReader::number_of(std::span<const std::uint64_t> coordinates) const {
  std::uint64_t number = 0;
  for (std::size_t d = 0; d < grid_.size(); ++d) {
    number = number * grid_[d] + coordinates[d] / layout_.chunk[d];
  }
  return number;
}

void ChunkReader::read(const Extents& start, const Extents& extent, const Pitches& pitch,
                       std::byte* out) const {
  const DecodingMemory::Loan loan(*layout_.memory);
  std::vector<ChunkBlock> parts = parts_of(start, extent, pitch);
  const auto done = [&](const ChunkBlock& part) { return try_read(part, pitch, out, loan.room()); };
  std::vector<ChunkBlock> remaining;
  for (const ChunkBlock& part : parts) {
    if (!done(part)) remaining.push_back(part);
  }
  while (!remaining.empty()) {
    // Other threads decode these chunks. Instead of waiting, this thread decodes the next ones.
    if (!decode_ahead(remaining, loan.room())) decoded_.wait(remaining.front().number);
    std::erase_if(remaining, done);
  }
}

std::vector<ChunkReader::ChunkBlock> ChunkReader::parts_of(const Extents& start,
                                                           const Extents& extent,
                                                           const Pitches& pitch) const {
  const std::size_t rank = grid_.size();
  std::vector<std::vector<Cut>> cuts;
  for (std::size_t d = 0; d < rank; ++d) {
    cuts.push_back(cuts_of(layout_.selection[d], layout_.chunk[d], {start[d], extent[d]}));
    if (cuts.back().empty()) return {};
  }
  std::vector<ChunkBlock> parts;
  std::vector<std::size_t> at(rank, 0);
  for (;;) {
    ChunkBlock part{0, Extents(rank), Extents(rank), Extents(rank), 1, 0};
    for (std::size_t d = 0; d < rank; ++d) {
      const auto& [chunk, selected] = cuts[d][at[d]];
      part.number = part.number * grid_[d] + chunk;
      part.chunk_start[d] = chunk * layout_.chunk[d];
      part.start[d] = layout_.selection[d][selected.first] - part.chunk_start[d];
      part.extent[d] = selected.count;
      part.count *= selected.count;
      part.out += (selected.first - start[d]) * pitch[d];
    }
    parts.push_back(std::move(part));
    std::size_t d = rank;
    for (; d > 0 && at[d - 1] + 1 == cuts[d - 1].size(); --d) at[d - 1] = 0;
    if (d == 0) return parts;
    ++at[d - 1];
  }
}

/// The number of a chunk's elements that are selected.
std::uint64_t ChunkReader::selected_in(std::span<const std::uint64_t> chunk_start) const {
  std::uint64_t count = 1;
  for (std::size_t d = 0; d < grid_.size(); ++d) {
    const Axis& axis = layout_.selection[d];
    count *= axis.count_below(chunk_start[d] + layout_.chunk[d]) - axis.count_below(chunk_start[d]);
  }
  return count;
}

/// Whether a part of the chunk is beyond the data set.
bool ChunkReader::is_at_edge(std::span<const std::uint64_t> chunk_start) const {
  for (std::size_t d = 0; d < grid_.size(); ++d) {
    if (layout_.shape[d] - chunk_start[d] < layout_.chunk[d]) return true;
  }
  return false;
}

bool ChunkReader::is_unfiltered(const StoredChunk& stored,
                                std::span<const std::uint64_t> chunk_start) const {
  return coding_.filters.skips_all(stored.mask) ||
         (!coding_.filters_edges && is_at_edge(chunk_start));
}

/// Returns false if another thread is decoding the chunk.
bool ChunkReader::try_read(const ChunkBlock& part, const Pitches& pitch, std::byte* out,
                           DecodingRoom& room) const {
  const StoredChunk stored = store_->find(part.number, part.chunk_start);
  if (stored.bytes == 0) {
    fill(part, pitch, out);
    return true;
  }
  if (is_unfiltered(stored, part.chunk_start)) {
    read_plain(part, stored, pitch, out, room);
    return true;
  }
  note_step(step_of(part.number));
  auto found = decoded_.find(part.number);
  if (!found.bytes && !found.claim) return false;
  const std::uint64_t elements = selected_in(part.chunk_start);
  if (found.claim && part.count == elements) {  // no other read needs this chunk
    const bool dense = part.count == chunk_elements_ && pitch == pitch_;
    std::byte* const to = dense ? out + part.out : room.bytes(3, chunk_bytes_);
    decode(stored, part.chunk_start, to, room);
    if (!dense) copy(part, to, pitch, out);
    return true;
  }
  if (found.claim) {
    found.bytes = decoded_.memory();
    decode(stored, part.chunk_start, found.bytes->data(), room);
    std::move(*found.claim).keep(found.bytes, elements);
  }
  copy(part, found.bytes->data(), pitch, out);
  decoded_.used(part.number, part.count, std::move(found.bytes));
  return true;
}

void ChunkReader::read_plain(const ChunkBlock& part, const StoredChunk& stored,
                             const Pitches& pitch, std::byte* out, DecodingRoom& room) const {
  if (stored.bytes != chunk_bytes_) {
    fail(part.chunk_start,
         fmt::format("it has {} bytes instead of {}", stored.bytes, chunk_bytes_));
  }
  const std::uint64_t first = offset_of(part.start, pitch_);
  read_block(part.extent, layout_.element, step_, out + part.out, pitch,
             {.read =
                  [&](std::uint64_t offset, std::uint64_t bytes, std::byte* to) {
                    read_bytes(stored, {first + offset, bytes}, to, part.chunk_start);
                  },
              .memory = [&](std::uint64_t bytes) { return room.bytes(2, bytes); }});
}

void ChunkReader::decode(const StoredChunk& stored, std::span<const std::uint64_t> chunk_start,
                         std::byte* out, DecodingRoom& room) const {
  // Filters enlarge a chunk that they cannot compress only a little.
  if (stored.bytes > 2 * chunk_bytes_ + 4096) {
    fail(chunk_start, fmt::format("it has {} bytes for {}", stored.bytes, chunk_bytes_));
  }
  std::byte* const raw = room.bytes(2, stored.bytes);
  read_bytes(stored, {0, stored.bytes}, raw, chunk_start);
  try {
    coding_.filters.decode({raw, stored.bytes}, stored.mask, out, chunk_bytes_, room);
  } catch (const ContractError&) {
    throw;
  } catch (const Error& error) {
    fail(chunk_start, error.what());
  }
}

/// Decodes one chunk that will be read after those of `parts`. Returns false if there is none.
bool ChunkReader::decode_ahead(const std::vector<ChunkBlock>& parts, DecodingRoom& room) const {
  std::uint64_t step = 0;
  {
    const std::lock_guard lock(mutex_);
    step = front_ + 1;
  }
  const std::uint64_t band = layout_.read_order == ReadOrder::blocks ? chunks_in_a_band() : 1;
  constexpr std::uint64_t max_steps = 64, max_skipped = 4096;
  std::uint64_t end = std::min(prepared_.end(), step + max_steps);
  const std::uint64_t last_end = std::min(prepared_.end(), step + max_skipped);
  // With one chunk in a band, all parts lead to the same one.
  const auto columns = std::span(parts).first(band == 1 ? 1 : parts.size());
  Extents chunk_start(grid_.size());
  for (; step < end; ++step) {
    bool is_selected = false;
    for (const ChunkBlock& part : columns) {
      const std::uint64_t number = step * band + part.number % band;
      for (std::size_t d = grid_.size(), rest = number; d > 0; --d) {
        chunk_start[d - 1] = rest % grid_[d - 1] * layout_.chunk[d - 1];
        rest /= grid_[d - 1];
      }
      const std::uint64_t elements = selected_in(chunk_start);
      if (elements == 0) continue;
      is_selected = true;
      auto claim = decoded_.find_ahead(number);
      if (!claim) continue;
      const StoredChunk stored = store_->find(number, chunk_start);
      if (stored.bytes == 0 || is_unfiltered(stored, chunk_start)) continue;
      auto bytes = decoded_.memory();
      decode(stored, chunk_start, bytes->data(), room);
      std::move(*claim).keep(std::move(bytes), elements);
      return true;
    }
    if (!is_selected) end = std::min(last_end, end + 1);
  }
  return false;
}

/// Reads some bytes of a stored chunk.
void ChunkReader::read_bytes(const StoredChunk& stored, Range bytes, std::byte* out,
                             std::span<const std::uint64_t> chunk_start) const {
  const std::int64_t got = stored.file->read_at(stored.address + bytes.first, out, bytes.count);
  if (got == static_cast<std::int64_t>(bytes.count)) return;
  fail(chunk_start, got < 0 ? errno_text(errno) : "the file is truncated");
}

void ChunkReader::copy(const ChunkBlock& part, const std::byte* chunk, const Pitches& pitch,
                       std::byte* out) const {
  copy_block(part.extent, layout_.element, chunk + offset_of(part.start, pitch_), step_,
             out + part.out, pitch);
}

void ChunkReader::fill(const ChunkBlock& part, const Pitches& pitch, std::byte* out) const {
  const Pitches same_element(pitch.size(), 0);
  copy_block(part.extent, layout_.element, coding_.fill.data(), same_element, out + part.out,
             pitch);
}

std::uint64_t ChunkReader::step_of(std::uint64_t number) const {
  return layout_.read_order == ReadOrder::blocks ? number / chunks_in_a_band() : number;
}

/// Reads visit the prepared chunks in order. The first step begins a new repetition.
void ChunkReader::note_step(std::uint64_t step) const {
  const std::lock_guard lock(mutex_);
  front_ = step <= prepared_.first ? step : std::max(front_, step);
}

void ChunkReader::fail(std::span<const std::uint64_t> chunk_start,
                       const std::string& reason) const {
  throw Error(fmt::format("cannot read the chunk at [{}] of {}: {}: copy or write the file again",
                          join(chunk_start, ", "), layout_.name, reason));
}

}  // namespace shardstream::io
