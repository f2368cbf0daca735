#include "io/source/dataset/dataset_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "io/description/description.hpp"
#include "types/stored_value.hpp"

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

Selection selection_of(const std::vector<SourceDimension>& dimensions) {
  Selection selection;
  for (const SourceDimension& dimension : dimensions) selection.push_back(dimension.axis);
  return selection;
}

}  // namespace

DatasetSource::DatasetSource(std::string name, const Conversion& conversion,
                             std::vector<SourceDimension> dimensions, Extents box, Misfit misfit)
    : name_(std::move(name)),
      conversion_(conversion),
      converts_(!is_identity(conversion)),
      dimensions_(std::move(dimensions)),
      order_(selection_of(dimensions_), std::move(box)),
      misfit_(std::move(misfit)) {
  if (!converts_) return;
  Conversions conversions;
  conversions.add(order_.count(), conversion);
  set_conversions(std::move(conversions));
}

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

void DatasetSource::read_block(const Extents& start, const Extents& extent, const Pitches& pitch,
                               std::byte* out) const {
  expect_block(start, extent);
  const std::uint64_t count = saturating_product(extent);
  if (count == 0) return;
  if (!converts_) return fetch_block(start, extent, pitch, out);
  std::vector<std::byte> stored(std::min(count, some_elements) * stored_size());
  const ElementOrder inside(extent, extent);
  for (std::uint64_t first = 0; first < count; first += some_elements) {
    for (const auto& block : inside.blocks(first, std::min(some_elements, count - first))) {
      convert_block(start, block, pitch, stored.data(), out);
    }
  }
}

/// Reads and converts a block inside the block at `start`, whose pitches and address in memory are
/// `pitch` and `out`. `stored` has room for the stored elements.
void DatasetSource::convert_block(const Extents& start, const ElementOrder::Block& block,
                                  const Pitches& pitch, std::byte* stored, std::byte* out) const {
  Extents from = start;
  for (std::size_t d = 0; d < from.size(); ++d) from[d] += block.start[d];
  fetch_block(from, block.extent, dense_pitches(block.extent, stored_size()), stored);
  const auto what = [&](std::uint64_t element) {
    Extents at = from;
    const Extents stride = row_major_strides(block.extent);
    for (std::size_t d = 0; d < at.size(); ++d) {
      at[d] = dimensions_[d].axis[at[d] + element / stride[d] % block.extent[d]];
    }
    return fmt::format("the element at [{}]", join(at, ", "));
  };
  const std::uint64_t element = size_of(type());
  std::byte* const to = out + offset_of(block.start, pitch);
  if (is_dense(block.extent, pitch, element)) {
    convert_elements(block.count, stored, to, what);
    return;
  }
  constexpr std::uint64_t min_run = 64;  // elements that are worth a call
  const std::uint64_t run = block.extent.back();
  if (pitch.back() == element && run >= min_run) {
    const Extents rows(block.extent.begin(), block.extent.end() - 1);
    const Extents stride = row_major_strides(rows);
    for (std::uint64_t row = 0; row < block.count / run; ++row) {
      std::uint64_t offset = 0;
      for (std::size_t d = 0; d < rows.size(); ++d) {
        offset += row / stride[d] % rows[d] * pitch[d];
      }
      const std::uint64_t first = row * run;
      convert_elements(run, stored + first * stored_size(), to + offset,
                       [&](std::uint64_t i) { return what(first + i); });
    }
    return;
  }
  std::vector<std::byte> converted(block.count * element);
  convert_elements(block.count, stored, converted.data(), what);
  copy_block(block.extent, element, converted.data(), dense_pitches(block.extent, element), to,
             pitch);
}

void DatasetSource::fetch(std::uint64_t first, std::uint64_t count, std::byte* out) const {
  for (const auto& block : order_.blocks(first, count)) {
    fetch_block(block.start, block.extent, dense_pitches(block.extent, stored_size()), out);
    out += block.count * stored_size();
  }
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
          : fmt::format("choose input.type = {}", word_of(needs_f64 ? ElementType::f64 : natural));
  throw Error(fmt::format("{} of {} ({}) is {}{}, which {} cannot hold: {}", what, name_,
                          misfit_.stored_as, text_of_stored(conversion_, stored),
                          conversion_.unpacking.any() ? " before it is unpacked" : "",
                          word_of(conversion_.to), remedy));
}

bool is_identity(const Conversion& conversion) {
  return word_of(conversion.from) == word_of(conversion.to) && !conversion.is_reversed &&
         !conversion.missing.any() && !conversion.unpacking.any();
}

}  // namespace shardstream::io
