#include "io/source/chunks/reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/hdf5/fill_value.hpp"
#include "io/hdf5/lookup.hpp"

namespace shardstream::io {
namespace {

Extents grid_of(const ChunkLayout& layout) {
  Extents grid;
  for (std::size_t d = 0; d < layout.chunk.size(); ++d) {
    grid.push_back(ceil_div(layout.stored[d], layout.chunk[d]));
  }
  return grid;
}

/// The number of decoded chunks that are kept for later reads. It is larger than that of HDF5's
/// cache, since readers also decode ahead. For rectangles, a whole band is kept, since the next
/// rectangle reads from the same chunks.
std::uint64_t chunks_kept(const ChunkLayout& layout, const Extents& grid) {
  constexpr std::uint64_t max_bytes = std::uint64_t{256} << 20;
  const std::uint64_t bytes = saturating_product(layout.chunk) * layout.element;
  const std::uint64_t band = layout.read_order == ReadOrder::rectangles
                                 ? saturating_product(std::span(grid).subspan(1))
                                 : 0;
  return std::max<std::uint64_t>(
      2, std::min(max_bytes / bytes, std::max<std::uint64_t>(32, band + 1)));
}

/// Calls run(from, to, count) for each run of elements that is contiguous in source and
/// destination. `from` and `to` are the offsets of its first element from that of the block, in
/// elements.
template <class Run>
void for_each_run(std::span<const std::uint64_t> extent, std::span<const std::uint64_t> from_pitch,
                  std::span<const std::uint64_t> to_pitch, const Run& run) {
  // The dimensions from `outer` on form one run.
  std::size_t outer = extent.size();
  std::uint64_t count = 1;
  while (outer > 0 && (extent[outer - 1] == 1 ||
                       (from_pitch[outer - 1] == count && to_pitch[outer - 1] == count))) {
    count *= extent[--outer];
  }
  Extents at(outer, 0);
  std::uint64_t from = 0, to = 0;
  for (;;) {
    run(from, to, count);
    std::size_t d = outer;
    for (; d > 0; --d) {
      from += from_pitch[d - 1];
      to += to_pitch[d - 1];
      if (++at[d - 1] < extent[d - 1]) break;
      from -= from_pitch[d - 1] * extent[d - 1];
      to -= to_pitch[d - 1] * extent[d - 1];
      at[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

std::uint64_t dot(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
  std::uint64_t sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
}

}  // namespace

/// Lends a DecodingRoom to one thread.
class ChunkReader::Loan {
 public:
  explicit Loan(const ChunkReader& reader) : reader_(reader) {
    {
      const std::lock_guard lock(reader_.mutex_);
      if (!reader_.rooms_.empty()) {
        room_ = std::move(reader_.rooms_.back());
        reader_.rooms_.pop_back();
      }
    }
    if (!room_) room_ = std::make_unique<DecodingRoom>();
  }
  ~Loan() {
    const std::lock_guard lock(reader_.mutex_);
    reader_.rooms_.push_back(std::move(room_));
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  DecodingRoom& room() const { return *room_; }

 private:
  const ChunkReader& reader_;
  std::unique_ptr<DecodingRoom> room_;
};

std::unique_ptr<ChunkReader> ChunkReader::open(const hdf5::Dataset& dataset, ChunkLayout layout) {
  const auto what = "cannot get the layout of " + layout.name;
  const hdf5::Lock lock;
  const hdf5::Properties creation(H5Dget_create_plist(dataset.get()), what);
  auto filters = ChunkFilters::of(creation.get());
  if (!filters) return nullptr;
  const std::string holder = file_of(dataset);
  Descriptor file(holder, O_RDONLY);
  if (!file.valid()) throw Error(fmt::format("cannot open '{}': {}", holder, errno_text(errno)));
  unsigned options = 0;
  hdf5::check(H5Pget_chunk_opts(creation.get(), &options), what);
  Extents grid = grid_of(layout);
  auto index =
      std::make_unique<ChunkIndex>(holder, path_of(dataset), layout.name, saturating_product(grid));
  auto fill = stored_fill_value(dataset);
  return std::unique_ptr<ChunkReader>(new ChunkReader(
      std::move(layout), std::move(*filters), (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) == 0,
      std::move(grid), std::move(file), std::move(index), std::move(fill)));
}

ChunkReader::ChunkReader(ChunkLayout layout, ChunkFilters filters, bool filters_edges, Extents grid,
                         Descriptor file, std::unique_ptr<ChunkIndex> index,
                         std::vector<std::byte> fill)
    : layout_(std::move(layout)),
      filters_(std::move(filters)),
      filters_edges_(filters_edges),
      grid_(std::move(grid)),
      pitch_(row_major_strides(layout_.chunk)),
      chunk_bytes_(saturating_product(layout_.chunk) * layout_.element),
      chunk_elements_(saturating_product(layout_.chunk)),
      file_(std::move(file)),
      index_(std::move(index)),
      fill_(std::move(fill)),
      decoded_(chunks_kept(layout_, grid_), chunk_bytes_) {}

std::optional<Decoding> ChunkReader::decoding() const {
  if (filters_.skips_all(0)) return std::nullopt;
  // A reader has a chunk in three forms (stored, inflated, unshuffled), and one for other readers.
  return Decoding{.shared = decoded_.room() * chunk_bytes_, .per_reader = 4 * chunk_bytes_};
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

void ChunkReader::read(std::span<const std::uint64_t> start, std::span<const std::uint64_t> extent,
                       std::span<const std::uint64_t> pitch, std::byte* out) const {
  const Loan loan(*this);
  std::vector<Part> parts = parts_of(start, extent, pitch);
  const auto done = [&](const Part& part) { return try_read(part, pitch, out, loan.room()); };
  std::vector<Part> remaining;
  for (const Part& part : parts) {
    if (!done(part)) remaining.push_back(part);
  }
  while (!remaining.empty()) {
    // Other threads decode these chunks. Instead of waiting, this thread decodes the next ones.
    if (!decode_ahead(remaining, loan.room())) decoded_.wait(remaining.front().number);
    std::erase_if(remaining, done);
  }
}

std::vector<ChunkReader::Part> ChunkReader::parts_of(std::span<const std::uint64_t> start,
                                                     std::span<const std::uint64_t> extent,
                                                     std::span<const std::uint64_t> pitch) const {
  const std::size_t rank = grid_.size();
  if (saturating_product(extent) == 0) return {};
  std::vector<Part> parts;
  Extents at(rank), first(rank), last(rank);  // in chunks
  for (std::size_t d = 0; d < rank; ++d) {
    at[d] = first[d] = start[d] / layout_.chunk[d];
    last[d] = (start[d] + extent[d] - 1) / layout_.chunk[d];
  }
  for (;;) {
    Part part{0, Extents(rank), Extents(rank), Extents(rank), 1, 0};
    for (std::size_t d = 0; d < rank; ++d) {
      part.number = part.number * grid_[d] + at[d];
      part.chunk_start[d] = at[d] * layout_.chunk[d];
      const Range inside =
          intersection({start[d], extent[d]}, {part.chunk_start[d], layout_.chunk[d]});
      part.start[d] = inside.first - part.chunk_start[d];
      part.extent[d] = inside.count;
      part.count *= inside.count;
      part.out += (inside.first - start[d]) * pitch[d];
    }
    parts.push_back(std::move(part));
    std::size_t d = rank;
    for (; d > 0 && at[d - 1] == last[d - 1]; --d) at[d - 1] = first[d - 1];
    if (d == 0) return parts;
    ++at[d - 1];
  }
}

/// The number of a chunk's elements that lie inside the data set.
std::uint64_t ChunkReader::elements_in(std::span<const std::uint64_t> chunk_start) const {
  std::uint64_t count = 1;
  for (std::size_t d = 0; d < grid_.size(); ++d) {
    count *= std::min(layout_.chunk[d], layout_.stored[d] - chunk_start[d]);
  }
  return count;
}

bool ChunkReader::is_unfiltered(const StoredChunk& stored,
                                std::span<const std::uint64_t> chunk_start) const {
  return filters_.skips_all(stored.mask) ||
         (!filters_edges_ && elements_in(chunk_start) < chunk_elements_);
}

/// Returns false if another thread is decoding the chunk.
bool ChunkReader::try_read(const Part& part, std::span<const std::uint64_t> pitch, std::byte* out,
                           DecodingRoom& room) const {
  const StoredChunk stored = index_->find(part.number, part.chunk_start);
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
  const std::uint64_t elements = elements_in(part.chunk_start);
  if (found.claim && part.count == elements) {  // no other read needs this chunk
    const bool dense = part.count == chunk_elements_ && std::ranges::equal(pitch, pitch_);
    std::byte* const to = dense ? out + part.out * layout_.element : room.bytes(3, chunk_bytes_);
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

/// Reads all bytes from the first to the last element at once if the gaps between the runs cost
/// less time than a read for each run; else reads run by run.
void ChunkReader::read_plain(const Part& part, const StoredChunk& stored,
                             std::span<const std::uint64_t> pitch, std::byte* out,
                             DecodingRoom& room) const {
  constexpr std::uint64_t cost_of_a_read = 4096;  // the number of bytes that take the same time
  if (stored.bytes != chunk_bytes_) {
    fail(part.chunk_start,
         fmt::format("it has {} bytes instead of {}", stored.bytes, chunk_bytes_));
  }
  std::uint64_t runs = 0, end = 0;
  for_each_run(part.extent, pitch_, pitch, [&](std::uint64_t from, std::uint64_t, std::uint64_t n) {
    ++runs;
    end = from + n;
  });
  const std::uint64_t element = layout_.element, first = dot(part.start, pitch_);
  const std::uint64_t address = stored.address + first * element;
  std::byte* const to = out + part.out * element;
  if (end * element <= part.count * element + runs * cost_of_a_read && runs > 1) {
    std::byte* const span = room.bytes(2, end * element);
    read_bytes(address, end * element, span, part.chunk_start);
    for_each_run(part.extent, pitch_, pitch,
                 [&](std::uint64_t from, std::uint64_t at, std::uint64_t n) {
                   std::memcpy(to + at * element, span + from * element, n * element);
                 });
    return;
  }
  for_each_run(
      part.extent, pitch_, pitch, [&](std::uint64_t from, std::uint64_t at, std::uint64_t n) {
        read_bytes(address + from * element, n * element, to + at * element, part.chunk_start);
      });
}

void ChunkReader::decode(const StoredChunk& stored, std::span<const std::uint64_t> chunk_start,
                         std::byte* out, DecodingRoom& room) const {
  // Filters enlarge a chunk that they cannot compress only a little.
  if (stored.bytes > 2 * chunk_bytes_ + 4096) {
    fail(chunk_start, fmt::format("it has {} bytes for {}", stored.bytes, chunk_bytes_));
  }
  std::byte* const raw = room.bytes(2, stored.bytes);
  read_bytes(stored.address, stored.bytes, raw, chunk_start);
  try {
    filters_.decode({raw, stored.bytes}, stored.mask, out, chunk_bytes_, room);
  } catch (const ContractError&) {
    throw;
  } catch (const Error& error) {
    fail(chunk_start, error.what());
  }
}

/// Decodes one chunk that will be read after those of `parts`. Returns false if there is none.
bool ChunkReader::decode_ahead(const std::vector<Part>& parts, DecodingRoom& room) const {
  std::uint64_t step = 0;
  {
    const std::lock_guard lock(mutex_);
    step = front_ + 1;
  }
  const std::uint64_t band = layout_.read_order == ReadOrder::rectangles ? chunks_in_a_band() : 1;
  constexpr std::uint64_t max_steps = 64;
  for (const std::uint64_t end = std::min(prepared_.end(), step + max_steps); step < end; ++step) {
    for (const Part& part : parts) {
      const std::uint64_t number = step * band + part.number % band;
      Extents chunk_start(grid_.size());
      for (std::size_t d = grid_.size(), rest = number; d > 0; --d) {
        chunk_start[d - 1] = rest % grid_[d - 1] * layout_.chunk[d - 1];
        rest /= grid_[d - 1];
      }
      auto claim = decoded_.find_ahead(number);
      if (!claim) continue;
      const StoredChunk stored = index_->find(number, chunk_start);
      if (stored.bytes == 0 || is_unfiltered(stored, chunk_start)) continue;
      auto bytes = decoded_.memory();
      decode(stored, chunk_start, bytes->data(), room);
      std::move(*claim).keep(std::move(bytes), elements_in(chunk_start));
      return true;
    }
  }
  return false;
}

void ChunkReader::read_bytes(std::uint64_t address, std::uint64_t bytes, std::byte* out,
                             std::span<const std::uint64_t> chunk_start) const {
  const std::int64_t got = file_.read_at(address, out, bytes);
  if (got == static_cast<std::int64_t>(bytes)) return;
  fail(chunk_start, got < 0 ? errno_text(errno) : "the file is truncated");
}

void ChunkReader::copy(const Part& part, const std::byte* chunk,
                       std::span<const std::uint64_t> pitch, std::byte* out) const {
  const std::uint64_t element = layout_.element;
  const std::byte* const first = chunk + dot(part.start, pitch_) * element;
  for_each_run(part.extent, pitch_, pitch,
               [&](std::uint64_t from, std::uint64_t at, std::uint64_t n) {
                 std::memcpy(out + (part.out + at) * element, first + from * element, n * element);
               });
}

void ChunkReader::fill(const Part& part, std::span<const std::uint64_t> pitch,
                       std::byte* out) const {
  for_each_run(part.extent, pitch_, pitch, [&](std::uint64_t, std::uint64_t at, std::uint64_t n) {
    fill_elements(fill_, n, out + (part.out + at) * fill_.size());
  });
}

std::uint64_t ChunkReader::step_of(std::uint64_t number) const {
  return layout_.read_order == ReadOrder::rectangles ? number / chunks_in_a_band() : number;
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
