#include "io/source/joined/joined_source.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/text.hpp"
#include "io/source/chunks/reader.hpp"
#include "io/source/dataset/planned_source.hpp"

namespace shardstream::io {
namespace {

/// The maximum cost of all open parts of one source. Some descriptors are left for results and
/// connections of MPI. A workload has at most three sources, and each may have a third of the rest.
OpeningCost limit_of_open_parts() {
  constexpr std::uint64_t others = 128, sources = 3, bytes = std::uint64_t{128} << 20;
  const std::uint64_t openable = openable_files();
  const std::uint64_t rest = std::max(openable / 2, openable - std::min(openable, others));
  return {.descriptors = rest / sources, .bytes = bytes};
}

bool is_exact(const JoinedPart& part) {
  const DatasetPlan& plan = part.plan;
  return plan.offset &&
         are_adjacent(plan.dimensions, plan.about.record, size_of(plan.conversion.from));
}

/// No conversions if all elements are stored as they are.
Conversions conversions_of(const std::vector<JoinedPart>& parts) {
  Conversions conversions;
  const auto converts = [](const JoinedPart& part) { return !is_identity(part.plan.conversion); };
  if (std::ranges::none_of(parts, converts)) return conversions;
  for (const JoinedPart& part : parts) {
    conversions.add(part.elements.count, part.plan.conversion);
  }
  return conversions;
}

/// The largest memory that decoding needs for any of the parts.
std::optional<Decoding> largest_decoding(const std::vector<JoinedPart>& parts, ReadOrder order) {
  std::optional<Decoding> largest;
  const auto memory = std::make_shared<DecodingMemory>();
  for (const JoinedPart& part : parts) {
    if (!part.plan.filters) continue;
    const auto one =
        ChunkReader::decoding_of(layout_of(part.plan, order, memory), *part.plan.filters);
    if (!one) continue;
    if (!largest) largest = Decoding{0, 0};
    largest->shared = std::max(largest->shared, one->shared);
    largest->per_reader = std::max(largest->per_reader, one->per_reader);
  }
  return largest;
}

/// Adds the memory of open parts, and two of four chunks of a reader once more: parts share the
/// memory for decoded chunks, but each one that is read may have two chunks beyond it.
std::optional<Decoding> with_open_parts(std::optional<Decoding> largest) {
  if (!largest) return std::nullopt;
  return Decoding{.shared = largest->shared + limit_of_open_parts().bytes,
                  .per_reader = largest->per_reader / 2 * 3};
}

/// The order of a part's elements.
ElementOrder order_of(const DatasetPlan& plan) {
  Selection selection;
  for (const SourceDimension& each : plan.dimensions) selection.push_back(each.axis);
  return {std::move(selection), plan.about.box};
}

/// The box of all parts, if each of them is numbered row by row, or else the extents that the boxes
/// of all parts have at least.
Extents box_of(const std::vector<SourceDimension>& dimensions,
               const std::vector<JoinedPart>& parts) {
  Extents extents;
  for (const SourceDimension& dimension : dimensions) extents.push_back(dimension.extent);
  const bool by_rows = std::ranges::all_of(
      parts, [](const JoinedPart& part) { return part.plan.about.box == part.plan.about.shape; });
  if (by_rows) return extents;
  Extents box = parts.front().plan.about.box;
  for (const JoinedPart& part : parts) {
    for (std::size_t d = 0; d < box.size(); ++d) box[d] = std::min(box[d], part.plan.about.box[d]);
  }
  return box;
}

}  // namespace

JoinedSource::JoinedSource(std::string name, std::vector<SourceDimension> dimensions,
                           std::vector<JoinedPart> parts, DatasetRequest request)
    : name_(std::move(name)),
      dimensions_(std::move(dimensions)),
      box_(box_of(dimensions_, parts)),
      parts_(std::move(parts)),
      request_(std::move(request)),
      may_choose_way_(request_.way == ReadWay::automatic),
      decoding_(largest_decoding(parts_, request_.order)),
      memory_(std::make_shared<DecodingMemory>(decoding_ ? decoding_->shared
                                                         : DecodingMemory::usual_bytes)) {
  decoding_ = with_open_parts(decoding_);
  set_conversions(conversions_of(parts_));
  std::vector<OpeningCost> costs;
  for (const JoinedPart& part : parts_) {
    costs.push_back(cost_of_opening(part.plan, request_.order));
  }
  pool_.emplace(std::move(costs), limit_of_open_parts(), memory_,
                [this](std::size_t part) { return open_part(part); });
  reads_.is_exact = std::ranges::all_of(parts_, is_exact);
  set_access(may_choose_way_ ? ReadWay::cached : request_.way);
  if (request_.way == ReadWay::direct) expect_direct_reads();
}

/// Opens one file of each file system, which throws if it does not support direct reads.
void JoinedSource::expect_direct_reads() const {
  std::set<std::uint64_t> devices;
  for (std::size_t number = 0; number < parts_.size(); ++number) {
    struct stat status {};
    if (::stat(parts_[number].plan.about.place.file.c_str(), &status) != 0 ||
        devices.insert(status.st_dev).second) {
      pool_->get(number);
    }
  }
}

/// Chooses the way for contiguous parts, which must not be open.
void JoinedSource::set_access(ReadWay way) {
  request_.way = way;
  reads_.past_cache = way == ReadWay::direct || way == ReadWay::direct_if_possible;
  std::vector<std::pair<std::string, std::uint64_t>> ways;  // with numbers of files
  for (const JoinedPart& part : parts_) {
    const std::string text =
        part.plan.offset && reads_.past_cache ? direct_access : access_of(part.plan);
    const auto known = std::ranges::find(ways, text, [](const auto& each) { return each.first; });
    if (known == ways.end()) {
      ways.emplace_back(text, 1);
    } else {
      ++known->second;
    }
  }
  access_ = join_first(ways, 4, "; ", [](const auto& each) {
    return fmt::format("{} ({})", each.first, counted(each.second, "file"));
  });
}

void JoinedSource::prepare(Range elements) {
  pool_->close_all();
  prepared_ = elements;
  if (!may_choose_way_) return;
  set_access(ReadWay::cached);
  if (!reads_.is_exact || elements.count == 0) return;
  const auto share = cached_share(*this, elements);
  if (!share || *share >= 0.5) return;
  bool has_direct_reads = false;
  visit_stored({elements.first, 1},
               [&](const Descriptor& file, Range) { has_direct_reads = DirectFile(file).valid(); });
  if (!has_direct_reads) return;
  pool_->close_all();
  set_access(ReadWay::direct_if_possible);  // files may be on several file systems
}

std::vector<JoinedSource::PartElements> JoinedSource::pieces_of(Range elements) const {
  const Range last = parts_.back().elements;
  expect(elements.first <= last.end() && elements.count <= last.end() - elements.first,
         "a range of elements ends inside its source");
  std::vector<PartElements> pieces;
  if (elements.count == 0) return pieces;
  auto part = std::ranges::upper_bound(parts_, elements.first, {},
                                       [](const JoinedPart& each) { return each.elements.end(); });
  for (; part != parts_.end() && part->elements.first < elements.end(); ++part) {
    const Range common = intersection(elements, part->elements);
    pieces.push_back({static_cast<std::size_t>(part - parts_.begin()),
                      {common.first - part->elements.first, common.count},
                      common.first - elements.first});
  }
  return pieces;
}

std::unique_ptr<DatasetSource> JoinedSource::open_part(std::size_t number) const {
  const JoinedPart& part = parts_[number];
  for (const InputFile& file : part.plan.origin.files) {
    if (const std::string change = change_of(file); !change.empty()) {
      throw Error(change +
                  ": run the same command again, after all writers of its inputs have "
                  "ended");
    }
  }
  auto source = open_planned(part.plan, request_, memory_);
  const Range common = intersection(prepared_, part.elements);
  source->prepare({common.count == 0 ? 0 : common.first - part.elements.first, common.count});
  return source;
}

Extents JoinedSource::coordinates(std::uint64_t index) const {
  const PartElements piece = pieces_of({index, 1}).at(0);
  const JoinedPart& part = parts_[piece.part];
  Extents at = order_of(part.plan).coordinates(piece.elements.first);
  at[0] += part.offset;
  return at;
}

std::vector<ElementOrder::Block> JoinedSource::blocks(std::uint64_t first,
                                                      std::uint64_t count) const {
  std::vector<ElementOrder::Block> blocks;
  for (const PartElements& piece : pieces_of({first, count})) {
    const JoinedPart& part = parts_[piece.part];
    for (auto& block : order_of(part.plan).blocks(piece.elements.first, piece.elements.count)) {
      block.start[0] += part.rows.first;
      block.box_start[0] += part.rows.first;
      blocks.push_back(std::move(block));
    }
  }
  return blocks;
}

void JoinedSource::visit_stored(Range elements, const UseBytes& use) const {
  for (const PartElements& piece : pieces_of(elements)) {
    const DatasetPlan& plan = parts_[piece.part].plan;
    if (plan.offset) {
      pool_->get(piece.part)->visit_stored(piece.elements, use);
      continue;
    }
    // A library is too slow to tell the bytes of each element.
    const std::string& holder = plan.about.place.file;
    const Descriptor file(holder, O_RDONLY);
    struct stat status {};
    if (!file.valid() || ::fstat(file.get(), &status) != 0) {
      throw Error(
          fmt::format("cannot open '{}' ({}): restore the file", holder, errno_text(errno)));
    }
    use(file, {0, static_cast<std::uint64_t>(status.st_size)});
  }
}

std::uint64_t JoinedSource::stored_bytes() const {
  std::uint64_t sum = 0;
  for (const JoinedPart& part : parts_) sum += selected_bytes(part.plan);
  return sum;
}

void JoinedSource::read(std::uint64_t first, std::uint64_t count, std::byte* out) const {
  for (const PartElements& piece : pieces_of({first, count})) {
    const auto [from, some] = piece.elements;
    pool_->get(piece.part)->read(from, some, out + piece.offset * size_of(type()));
  }
}

void JoinedSource::read_block(const Extents& start, const Extents& extent, const Pitches& pitch,
                              std::byte* out) const {
  expect_block(start, extent);
  const Range rows{start[0], extent[0]};
  const auto part = std::ranges::upper_bound(
      parts_, rows.first, {}, [](const JoinedPart& each) { return each.rows.end(); });
  for (auto number = static_cast<std::size_t>(part - parts_.begin());
       number < parts_.size() && parts_[number].rows.first < rows.end(); ++number) {
    const Range own = parts_[number].rows, common = intersection(rows, own);
    Extents first = start, some = extent;
    first[0] = common.first - own.first;
    some[0] = common.count;
    pool_->get(number)->read_block(first, some, pitch,
                                   out + (common.first - rows.first) * pitch[0]);
  }
}

std::uint64_t JoinedSource::slot_bytes(std::uint64_t count) const {
  const std::uint64_t bytes = count * stored_size();
  return reads_.is_exact && reads_.past_cache ? DirectFile::room(bytes) : bytes;
}

const std::byte* JoinedSource::read_stored(std::uint64_t first, std::uint64_t count,
                                           std::byte* slot) const {
  const std::vector<PartElements> pieces = pieces_of({first, count});
  if (pieces.size() == 1 && (reads_.is_exact || !reads_.past_cache)) {  // a slot of any part
    return pool_->get(pieces[0].part)->read_stored(pieces[0].elements.first, count, slot);
  }
  for (const PartElements& piece : pieces) copy_stored(piece, slot + piece.offset * stored_size());
  return slot;
}

/// Direct reads need aligned memory and choose the position in it.
void JoinedSource::copy_stored(const PartElements& piece, std::byte* to) const {
  const auto source = pool_->get(piece.part);
  const auto [first, count] = piece.elements;
  const auto reads = source->file_reads();
  if (!reads || !reads->past_cache) {
    const std::byte* const at = source->read_stored(first, count, to);
    expect(at == to, "only direct reads choose the position of elements");
    return;
  }
  const AlignedBytes room(DirectFile::block(), DirectFile::room(source->slot_bytes(count)));
  const std::byte* const at = source->read_stored(first, count, room.data());
  std::memcpy(to, at, count * stored_size());
}

std::uint64_t JoinedSource::convert(std::uint64_t first, std::uint64_t count,
                                    const std::byte* stored, std::byte* out) const {
  std::uint64_t missing = 0;
  for (const PartElements& piece : pieces_of({first, count})) {
    const auto [from, some] = piece.elements;
    missing += pool_->get(piece.part)
                   ->convert(from, some, stored + piece.offset * stored_size(),
                             out + piece.offset * size_of(type()));
  }
  return missing;
}

}  // namespace shardstream::io
