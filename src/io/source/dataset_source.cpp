#include "io/source/dataset_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "io/hdf5/stored_type.hpp"
#include "kernels/data/stored_value.hpp"

namespace shardstream::io {
namespace {

/// The number of elements that are read and converted together.
constexpr std::uint64_t some_elements = std::uint64_t{1} << 18;

/// The stored element as a number in words.
std::string text_of_stored(const Conversion& conversion, const std::byte* stored) {
  const std::size_t size = size_of(conversion.from);
  std::uint64_t bits = 0;
  auto* const bytes = reinterpret_cast<std::byte*>(&bits);
  std::copy_n(stored, size, bytes);
  if (conversion.is_reversed) std::reverse(bytes, bytes + size);
  return text_of(bits, conversion.from);
}

}  // namespace

DatasetSource::DatasetSource(std::string name, const Conversion& conversion, ElementOrder order,
                             Misfit misfit)
    : name_(std::move(name)),
      conversion_(conversion),
      converts_(!is_identity(conversion)),
      order_(std::move(order)),
      misfit_(std::move(misfit)) {}

void DatasetSource::read(std::uint64_t first, std::uint64_t count, std::byte* out) const {
  if (!converts_) return fetch(first, count, out);
  std::vector<std::byte> stored(std::min(count, some_elements) * stored_size());
  while (count > 0) {
    const std::uint64_t now = std::min(count, some_elements);
    fetch(first, now, stored.data());
    convert(first, now, stored.data(), out);
    first += now;
    count -= now;
    out += now * size_of(type());
  }
}

void DatasetSource::read_rectangle(Range rows, Range columns, std::byte* out,
                                   std::uint64_t stride) const {
  expect_rectangle(rows, columns, stride);
  if (rows.count == 0 || columns.count == 0) return;
  if (!converts_) return fetch_rectangle(rows, columns, out, stride);
  const std::uint64_t row_bytes = columns.count * stored_size();
  const std::uint64_t max_rows = std::max<std::uint64_t>(some_elements / columns.count, 1);
  std::vector<std::byte> stored(std::min(max_rows, rows.count) * row_bytes);
  for (std::uint64_t done = 0; done < rows.count; done += max_rows) {
    const Range piece = intersection(rows, {rows.first + done, max_rows});
    fetch_rectangle(piece, columns, stored.data(), row_bytes);
    for (std::uint64_t row = 0; row < piece.count; ++row) {
      convert_elements(columns.count, stored.data() + row * row_bytes, out + (done + row) * stride,
                       [&](std::uint64_t column) {
                         return fmt::format("the element in row {}, column {}", piece.first + row,
                                            columns.first + column);
                       });
    }
  }
}

void DatasetSource::fetch_rectangle(Range rows, Range columns, std::byte* out,
                                    std::uint64_t stride) const {
  read_rows(
      rows, columns, stored_size(), out, stride,
      [this](std::uint64_t first, std::uint64_t count, std::byte* to) { fetch(first, count, to); });
}

const std::byte* DatasetSource::read_stored(std::uint64_t first, std::uint64_t count,
                                            std::byte* slot) const {
  fetch(first, count, slot);
  return slot;
}

std::uint64_t DatasetSource::convert(std::uint64_t first, std::uint64_t count,
                                     const std::byte* stored, std::byte* out) const {
  return convert_elements(count, stored, out, [&](std::uint64_t element) {
    return fmt::format("element {}", first + element);
  });
}

/// `what` describes element i of these for messages.
template <class What>
std::uint64_t DatasetSource::convert_elements(std::uint64_t count, const std::byte* stored,
                                              std::byte* out, const What& what) const {
  const Converted result = shardstream::convert(conversion_, stored, count, out);
  if (result.misfit) {
    fail_to_convert(what(*result.misfit), stored + *result.misfit * stored_size());
  }
  return result.missing;
}

/// `stored` is the element that does not fit.
void DatasetSource::fail_to_convert(const std::string& what, const std::byte* stored) const {
  // The natural type holds every stored value, but not every unpacked one.
  const ElementType natural = natural_type(conversion_.from);
  const bool needs_f64 = conversion_.unpacking.any();
  const auto remedy =
      !misfit_.remedy.empty()
          ? misfit_.remedy
          : fmt::format("choose input.type = {}", name_of(needs_f64 ? ElementType::f64 : natural));
  throw Error(fmt::format("{} of {} ({}) is {}{}, which {} cannot hold: {}", what, name_,
                          misfit_.stored_as, text_of_stored(conversion_, stored),
                          conversion_.unpacking.any() ? " before it is unpacked" : "",
                          name_of(conversion_.to), remedy));
}

bool is_identity(const Conversion& conversion) {
  return name_of(conversion.from) == name_of(conversion.to) && !conversion.is_reversed &&
         !conversion.missing.any() && !conversion.unpacking.any();
}

void gather(const std::byte* records, const Record& record, std::uint64_t element,
            std::uint64_t count, std::byte* out) {
  const auto copy = [&](auto size) {  // a constant size makes each copy a single move
    for (std::uint64_t i = 0; i < count; ++i) {
      std::memcpy(out + i * size, records + i * record.size + record.offset, size);
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

}  // namespace shardstream::io
