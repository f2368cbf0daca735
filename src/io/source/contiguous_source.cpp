#include "io/source/contiguous_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "core/error.hpp"

namespace shardstream::io {
namespace {

constexpr auto cached_access = "contiguous, parallel pread";
constexpr auto direct_access = "contiguous, parallel O_DIRECT reads";

}  // namespace

ContiguousSource::ContiguousSource(std::string name, const Conversion& conversion, Record record,
                                   ElementOrder order, Misfit misfit, Descriptor file,
                                   std::uint64_t offset, ReadWay way)
    : DatasetSource(std::move(name), conversion, std::move(order), std::move(misfit)),
      record_(record),
      file_(std::move(file)),
      offset_(offset),
      way_(way) {
  set_access(cached_access);
  if (way != ReadWay::direct) return;
  direct_ = DirectFile(file_);
  if (!direct_.valid()) {
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
  set_access(cached_access);
  const auto share = cached_share(file_, bytes_of(elements));
  if (!share || *share >= 0.5) return;
  direct_ = DirectFile(file_);
  set_access(direct_.valid() ? direct_access
                             : fmt::format("{} (not cached, but its file system does not support "
                                           "O_DIRECT: {})",
                                           cached_access, errno_text(errno)));
}

std::optional<StoredBytes> ContiguousSource::stored(Range elements) const {
  return StoredBytes{&file_, bytes_of(elements), !has_gaps(), direct_.valid()};
}

void ContiguousSource::fetch(std::uint64_t first, std::uint64_t count, std::byte* out) const {
  if (!has_gaps()) return fetch_records({first, count}, out);
  constexpr std::uint64_t max = std::uint64_t{1} << 20;
  const std::uint64_t piece = std::max<std::uint64_t>(1, max / record_.size);
  std::vector<std::byte> records(std::min(piece, count) * record_.size);
  for (std::uint64_t done = 0; done < count; done += piece) {
    const std::uint64_t now = std::min(piece, count - done);
    fetch_records({first + done, now}, records.data());
    gather(records.data(), record_, stored_size(), now, out + done * stored_size());
  }
}

void ContiguousSource::fetch_records(Range elements, std::byte* out) const {
  const Range all = bytes_of(elements);
  if (!direct_.valid()) return expect_all(file_.read_at(all.first, out, all.count), elements);
  constexpr std::uint64_t max = std::uint64_t{4} << 20;
  const AlignedBytes buffer(DirectFile::block(), DirectFile::room(std::min(all.count, max)));
  for (std::uint64_t done = 0; done < all.count; done += max) {
    const Range now = intersection(all, {all.first + done, max});
    expect_all(direct_.read_at(now.first, buffer.data(), now.count), elements, now.count);
    std::copy_n(buffer.data() + DirectFile::head(now.first), now.count, out + done);
  }
}

std::uint64_t ContiguousSource::slot_bytes(std::uint64_t count) const {
  const std::uint64_t bytes = count * stored_size();
  return direct_.valid() && !has_gaps() ? DirectFile::room(bytes) : bytes;
}

const std::byte* ContiguousSource::read_stored(std::uint64_t first, std::uint64_t count,
                                               std::byte* slot) const {
  if (!direct_.valid() || has_gaps()) {
    fetch(first, count, slot);
    return slot;
  }
  const Range bytes = bytes_of({first, count});
  expect_all(direct_.read_at(bytes.first, slot, bytes.count), {first, count});
  return slot + DirectFile::head(bytes.first);
}

Range ContiguousSource::bytes_of(Range elements) const {
  expect(elements.first <= order().count() && elements.count <= order().count() - elements.first,
         "a range of elements ends inside its source");
  return {offset_ + elements.first * record_.size, elements.count * record_.size};
}

/// `got` is the number of bytes that a read of all of the elements has returned, or -1 with errno.
void ContiguousSource::expect_all(std::int64_t got, Range elements) const {
  expect_all(got, elements, elements.count * record_.size);
}

/// The same for a read of `wanted` bytes.
void ContiguousSource::expect_all(std::int64_t got, Range elements, std::uint64_t wanted) const {
  if (got == static_cast<std::int64_t>(wanted)) return;
  const std::string reason =
      got < 0 ? errno_text(errno) : "the file is truncated; it was shortened while it was read";
  throw Error(fmt::format("cannot read elements {} to {} of {} ({}): copy or write the file again",
                          elements.first, elements.end() - 1, name(), reason));
}

}  // namespace shardstream::io
