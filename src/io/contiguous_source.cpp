#include "io/contiguous_source.hpp"

#include <fmt/format.h>

#include <cerrno>

#include "core/error.hpp"

namespace shardstream::io {

ContiguousSource::ContiguousSource(std::string name, ElementType type, ElementOrder order,
                                   Descriptor file, std::uint64_t offset)
    : name_(std::move(name)),
      access_("contiguous, parallel pread"),
      type_(type),
      order_(std::move(order)),
      file_(std::move(file)),
      offset_(offset) {}

void ContiguousSource::read(std::uint64_t first, std::uint64_t count, std::byte* out) const {
  expect(first <= order_.count() && count <= order_.count() - first,
         "a range of elements ends inside its source");
  const std::uint64_t bytes = count * size_of(type_);
  const std::int64_t got = file_.read_at(offset_ + first * size_of(type_), out, bytes);
  if (got == static_cast<std::int64_t>(bytes)) return;
  const std::string reason =
      got < 0 ? errno_text(errno) : "the file is truncated, it was cut while it was being read";
  throw Error(fmt::format("cannot read elements {} to {} of {}: {}: copy or write the file again",
                          first, first + count - 1, name_, reason));
}

}  // namespace shardstream::io
