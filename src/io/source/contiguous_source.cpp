#include "io/source/contiguous_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "core/error.hpp"
#include "io/source/direct_file.hpp"

namespace shardstream::io {
namespace {

constexpr auto cached_access = "contiguous, parallel pread";
constexpr auto direct_access = "contiguous, parallel O_DIRECT reads";

}  // namespace

ContiguousSource::ContiguousSource(std::string name, ElementType type, ElementOrder order,
                                   Descriptor file, std::uint64_t offset, ReadWay way)
    : name_(std::move(name)),
      access_(cached_access),
      type_(type),
      order_(std::move(order)),
      file_(std::move(file)),
      offset_(offset),
      way_(way) {
  if (way != ReadWay::direct) return;
  direct_ = DirectFile(file_);
  if (!direct_.valid()) {
    throw UsageError(
        fmt::format("the file system of {} cannot read past the page cache ({}): pass --input.read "
                    "auto or cached",
                    name_, errno_text(errno)));
  }
  access_ = direct_access;
}

void ContiguousSource::prepare(Range elements) {
  if (way_ != ReadWay::automatic) return;
  direct_ = DirectFile();
  access_ = cached_access;
  const auto share = cached_share(file_, bytes_of(elements));
  if (!share || *share >= 0.5) return;
  direct_ = DirectFile(file_);
  access_ = direct_.valid()
                ? direct_access
                : fmt::format("{} (not cached, but its file system does not support O_DIRECT: {})",
                              cached_access, errno_text(errno));
}

std::optional<StoredBytes> ContiguousSource::stored(Range elements) const {
  return StoredBytes{&file_, bytes_of(elements), true, direct_.valid()};
}

void ContiguousSource::read(std::uint64_t first, std::uint64_t count, std::byte* out) const {
  const Range all = bytes_of({first, count});
  if (!direct_.valid()) return expect_all(file_.read_at(all.first, out, all.count), {first, count});
  constexpr std::uint64_t max = std::uint64_t{4} << 20;  // a multiple of every element size
  const AlignedBytes buffer(DirectFile::block(), DirectFile::room(std::min(all.count, max)));
  const std::uint64_t piece = max / size_of(type_);
  for (std::uint64_t done = 0; done < count; done += piece) {
    const std::uint64_t now = std::min(piece, count - done);
    const std::byte* const from = read_into(first + done, now, buffer.data());
    std::copy_n(from, now * size_of(type_), out + done * size_of(type_));
  }
}

std::uint64_t ContiguousSource::slot_bytes(std::uint64_t count) const {
  const std::uint64_t bytes = count * size_of(type_);
  return direct_.valid() ? DirectFile::room(bytes) : bytes;
}

const std::byte* ContiguousSource::read_into(std::uint64_t first, std::uint64_t count,
                                             std::byte* slot) const {
  if (!direct_.valid()) {
    read(first, count, slot);
    return slot;
  }
  const Range bytes = bytes_of({first, count});
  expect_all(direct_.read_at(bytes.first, slot, bytes.count), {first, count});
  return slot + DirectFile::head(bytes.first);
}

Range ContiguousSource::bytes_of(Range elements) const {
  expect(elements.first <= order_.count() && elements.count <= order_.count() - elements.first,
         "a range of elements ends inside its source");
  return {offset_ + elements.first * size_of(type_), elements.count * size_of(type_)};
}

/// `got` is the number of bytes that a read of the elements has returned, or -1 with errno.
void ContiguousSource::expect_all(std::int64_t got, Range elements) const {
  if (got == static_cast<std::int64_t>(elements.count * size_of(type_))) return;
  const std::string reason =
      got < 0 ? errno_text(errno) : "the file is truncated; it was shortened while it was read";
  throw Error(fmt::format("cannot read elements {} to {} of {} ({}): copy or write the file again",
                          elements.first, elements.end() - 1, name_, reason));
}

}  // namespace shardstream::io
