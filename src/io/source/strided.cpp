#include "io/source/strided.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace shardstream::io {
namespace {

/// A block in two arrays without dimensions of one element; neighbouring dimensions that have no
/// gaps in both arrays are joined.
struct JoinedLayout {
  Extents extent;
  Pitches from, to;
};

JoinedLayout joined(const Extents& extent, const Pitches& from, const Pitches& to) {
  JoinedLayout made;
  for (std::size_t d = 0; d < extent.size(); ++d) {
    if (extent[d] == 1) continue;
    const bool joins = !made.extent.empty() && made.from.back() == from[d] * extent[d] &&
                       made.to.back() == to[d] * extent[d];
    if (joins) {
      made.extent.back() *= extent[d];
      made.from.back() = from[d];
      made.to.back() = to[d];
    } else {
      made.extent.push_back(extent[d]);
      made.from.push_back(from[d]);
      made.to.push_back(to[d]);
    }
  }
  return made;
}

/// Calls visit(from, to) with the offsets of each index of the first `dimensions` dimensions.
template <class Visit>
void for_each_index(const JoinedLayout& layout, std::size_t dimensions, const Visit& visit) {
  Extents at(dimensions, 0);
  std::uint64_t from = 0, to = 0;
  for (;;) {
    visit(from, to);
    std::size_t d = dimensions;
    for (; d > 0; --d) {
      from += layout.from[d - 1];
      to += layout.to[d - 1];
      if (++at[d - 1] < layout.extent[d - 1]) break;
      from -= layout.from[d - 1] * layout.extent[d - 1];
      to -= layout.to[d - 1] * layout.extent[d - 1];
      at[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

/// Copies `count` elements with these pitches.
void copy_elements(std::uint64_t count, std::uint64_t element, const std::byte* from,
                   std::uint64_t from_pitch, std::byte* to, std::uint64_t to_pitch) {
  const auto copy = [&](auto size) {  // a constant size makes each copy a single move
    for (std::uint64_t i = 0; i < count; ++i) {
      std::memcpy(to + i * to_pitch, from + i * from_pitch, size);
    }
  };
  switch (element) {
    case 1:
      return copy(std::integral_constant<std::size_t, 1>{});
    case 2:
      return copy(std::integral_constant<std::size_t, 2>{});
    case 4:
      return copy(std::integral_constant<std::size_t, 4>{});
    case 8:
      return copy(std::integral_constant<std::size_t, 8>{});
    default:
      return copy(element);
  }
}

void copy_layout(const JoinedLayout& layout, std::uint64_t element, const std::byte* from,
                 std::byte* to) {
  const std::size_t rank = layout.extent.size();
  if (rank == 0) {
    std::memcpy(to, from, element);
    return;
  }
  const std::uint64_t count = layout.extent.back(), from_pitch = layout.from.back(),
                      to_pitch = layout.to.back();
  const bool is_run = from_pitch == element && to_pitch == element;
  for_each_index(layout, rank - 1, [&](std::uint64_t from_offset, std::uint64_t to_offset) {
    if (is_run) {
      std::memcpy(to + to_offset, from + from_offset, count * element);
    } else {
      copy_elements(count, element, from + from_offset, from_pitch, to + to_offset, to_pitch);
    }
  });
}

/// How a block is read: for each index of the first `outer` dimensions, `together` indices of the
/// next one at a time, with all of the inner dimensions. One index of it has `bytes` bytes, from
/// the first to the last one.
struct Reads {
  std::size_t outer;
  std::uint64_t together, bytes;
};

/// Whether the dimensions from `first` on are one run in both arrays.
bool is_run(const JoinedLayout& layout, std::size_t first, std::uint64_t element) {
  const std::size_t rank = layout.extent.size();
  return first == rank ||
         (first + 1 == rank && layout.from.back() == element && layout.to.back() == element);
}

/// Joins dimensions from the innermost one on, as long as reading the gaps costs less time than
/// further reads. `layout` has at least one dimension.
Reads plan_reads(const JoinedLayout& layout, std::uint64_t element, const Gathering& gathering) {
  std::uint64_t bytes = element;
  for (std::size_t d = layout.extent.size() - 1;; --d) {
    const std::uint64_t pitch = layout.from[d], extent = layout.extent[d];
    std::uint64_t together = 1;
    if (is_run(layout, d, element)) {
      together = extent;
    } else if (pitch - bytes <= gathering.max_gap && bytes < gathering.max_bytes) {
      together = std::min(extent, (gathering.max_bytes - bytes) / pitch + 1);
    }
    if (together < extent || d == 0) return {d, together, bytes};
    bytes += (extent - 1) * pitch;
  }
}

/// Reads `count` indices of dimension `outer`, from `first` on, and all of the inner dimensions.
/// `from` and `to` are the offset in the file and the address of index `first`.
void read_together(const JoinedLayout& layout, const Reads& reads, std::uint64_t count,
                   std::uint64_t element, std::uint64_t from, std::byte* to,
                   const BlockReader& reader) {
  const std::uint64_t bytes = (count - 1) * layout.from[reads.outer] + reads.bytes;
  const bool is_direct = is_run(layout, reads.outer, element) ||
                         (count == 1 && is_run(layout, reads.outer + 1, element));
  if (is_direct) return reader.read(from, bytes, to);
  const auto inner = [&](const Extents& all) {
    return Extents(all.begin() + static_cast<std::ptrdiff_t>(reads.outer), all.end());
  };
  JoinedLayout part{inner(layout.extent), inner(layout.from), inner(layout.to)};
  part.extent[0] = count;
  std::byte* const room = reader.memory(bytes);
  reader.read(from, bytes, room);
  copy_layout(part, element, room, to);
}

}  // namespace

Pitches dense_pitches(const Extents& extent, std::uint64_t element) {
  Pitches pitch = row_major_strides(extent);
  for (std::uint64_t& each : pitch) each *= element;
  return pitch;
}

bool is_dense(const Extents& extent, const Pitches& pitch, std::uint64_t element) {
  const JoinedLayout layout = joined(extent, pitch, pitch);
  return is_run(layout, 0, element);
}

std::uint64_t offset_of(std::span<const std::uint64_t> index, const Pitches& pitch) {
  std::uint64_t offset = 0;
  for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * pitch[d];
  return offset;
}

void copy_block(const Extents& extent, std::uint64_t element, const std::byte* from,
                const Pitches& from_pitch, std::byte* to, const Pitches& to_pitch) {
  copy_layout(joined(extent, from_pitch, to_pitch), element, from, to);
}

void read_block(const Extents& extent, std::uint64_t element, const Pitches& in_file, std::byte* to,
                const Pitches& to_pitch, const BlockReader& reader) {
  const JoinedLayout layout = joined(extent, in_file, to_pitch);
  if (layout.extent.empty()) return reader.read(0, element, to);
  const Reads reads = plan_reads(layout, element, reader.gathering);
  const std::size_t d = reads.outer;
  for_each_index(layout, d, [&](std::uint64_t from, std::uint64_t to_offset) {
    for (std::uint64_t first = 0; first < layout.extent[d]; first += reads.together) {
      const std::uint64_t count = std::min(reads.together, layout.extent[d] - first);
      read_together(layout, reads, count, element, from + first * layout.from[d],
                    to + to_offset + first * layout.to[d], reader);
    }
  });
}

}  // namespace shardstream::io
