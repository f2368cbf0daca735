#include "io/source/dataset/contiguous_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "core/error.hpp"

namespace shardstream::io {
namespace {

Extents extents_of(const std::vector<SourceDimension>& dimensions) {
  Extents extents;
  for (const SourceDimension& dimension : dimensions) extents.push_back(dimension.extent);
  return extents;
}

}  // namespace

bool are_adjacent(const std::vector<SourceDimension>& dimensions, const Record& record,
                  std::uint64_t element) {
  Pitches pitch = dense_pitches(extents_of(dimensions), record.size);
  Extents counts;
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    pitch[d] *= dimensions[d].axis.step;
    counts.push_back(dimensions[d].axis.count);
  }
  return record.size == element && is_dense(counts, pitch, element);
}

ContiguousSource::ContiguousSource(std::string name, const Conversion& conversion,
                                   std::vector<SourceDimension> dimensions, Misfit misfit,
                                   StoredRecords records, ReadWay way)
    : DatasetSource(std::move(name), conversion, dimensions, extents_of(dimensions),
                    std::move(misfit)),
      record_(records.record),
      file_(std::move(records.file)),
      offset_(records.offset),
      pitch_(dense_pitches(extents_of(dimensions), record_.size)),
      way_(way) {
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    const Axis& axis = dimensions[d].axis;
    offset_ += axis.first * pitch_[d];
    pitch_[d] *= axis.step;
  }
  is_run_ = are_adjacent(dimensions, record_, stored_size());
  set_access(contiguous_access);
  if (way != ReadWay::direct && way != ReadWay::direct_if_possible) return;
  direct_ = DirectFile(file_);
  if (!direct_.valid()) {
    if (way == ReadWay::direct_if_possible) return;
    throw UsageError(
        fmt::format("the file system of {} cannot read past the page cache ({}): pass --input.read "
                    "auto or cached",
                    this->name(), errno_text(errno)));
  }
  set_access(direct_access);
}

void ContiguousSource::prepare(Range elements) {
  if (way_ != ReadWay::automatic) return;
  direct_ = DirectFile();
  set_access(contiguous_access);
  const auto share = cached_share(file_, bytes_of(elements));
  if (!share || *share >= 0.5) return;
  direct_ = DirectFile(file_);
  set_access(direct_.valid() ? direct_access
                             : fmt::format("{} (not cached, but its file system does not support "
                                           "O_DIRECT: {})",
                                           contiguous_access, errno_text(errno)));
}

void ContiguousSource::visit_stored(Range elements, const UseBytes& use) const {
  use(file_, bytes_of(elements));
}

void ContiguousSource::fetch(std::uint64_t first, std::uint64_t count, std::byte* out) const {
  if (!is_run_) return DatasetSource::fetch(first, count, out);
  const Range bytes = bytes_of({first, count});
  read_at(bytes.first, bytes.count, out);
}

void ContiguousSource::fetch_block(const Extents& start, const Extents& extent,
                                   const Pitches& pitch, std::byte* out) const {
  const std::uint64_t first = offset_ + offset_of(start, pitch_) + record_.offset;
  std::vector<std::byte> room;
  io::read_block(extent, stored_size(), pitch_, out, pitch,
                 {.read = [&](std::uint64_t offset, std::uint64_t bytes,
                              std::byte* to) { read_at(first + offset, bytes, to); },
                  .memory =
                      [&](std::uint64_t bytes) {
                        room.resize(std::max(room.size(), bytes));
                        return room.data();
                      },
                  .gathering = direct_.valid() ? direct_gathering : cached_gathering});
}

void ContiguousSource::read_at(std::uint64_t offset, std::uint64_t bytes, std::byte* out) const {
  const Range all{offset, bytes};
  if (!direct_.valid()) return expect_all(file_.read_at(offset, out, bytes), all);
  constexpr std::uint64_t max = std::uint64_t{4} << 20;
  const AlignedBytes buffer(DirectFile::block(), DirectFile::room(std::min(bytes, max)));
  for (std::uint64_t done = 0; done < bytes; done += max) {
    const Range now = intersection(all, {offset + done, max});
    expect_all(direct_.read_at(now.first, buffer.data(), now.count), now);
    std::copy_n(buffer.data() + DirectFile::head(now.first), now.count, out + done);
  }
}

std::uint64_t ContiguousSource::slot_bytes(std::uint64_t count) const {
  const std::uint64_t bytes = count * stored_size();
  return direct_.valid() && is_run_ ? DirectFile::room(bytes) : bytes;
}

const std::byte* ContiguousSource::read_stored(std::uint64_t first, std::uint64_t count,
                                               std::byte* slot) const {
  if (!direct_.valid() || !is_run_) {
    fetch(first, count, slot);
    return slot;
  }
  const Range bytes = bytes_of({first, count});
  expect_all(direct_.read_at(bytes.first, slot, bytes.count), bytes);
  return slot + DirectFile::head(bytes.first);
}

/// The bytes from the first to the last one of the elements.
Range ContiguousSource::bytes_of(Range elements) const {
  const std::uint64_t all = count();
  expect(elements.first <= all && elements.count <= all - elements.first,
         "a range of elements ends inside its source");
  if (elements.count == 0) return {offset_, 0};
  const auto position = [&](std::uint64_t element) {
    const Extents stride = row_major_strides(order().shape());
    std::uint64_t offset = offset_;
    for (std::size_t d = 0; d < stride.size(); ++d) {
      offset += element / stride[d] % order().shape()[d] * pitch_[d];
    }
    return offset;
  };
  const std::uint64_t first = position(elements.first);
  return {first, position(elements.end() - 1) + record_.size - first};
}

/// `got` is the number of bytes that a read has returned, or -1 with errno.
void ContiguousSource::expect_all(std::int64_t got, Range bytes) const {
  if (got == static_cast<std::int64_t>(bytes.count)) return;
  const std::string reason =
      got < 0 ? errno_text(errno) : "the file is truncated; it was shortened while it was read";
  throw Error(
      fmt::format("cannot read {} bytes of {} at byte {} of its file ({}): copy or write the file "
                  "again",
                  bytes.count, name(), bytes.first, reason));
}

}  // namespace shardstream::io
