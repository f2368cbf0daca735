#include "workloads/product/engine/held_matrix.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/error.hpp"
#include "core/parallel.hpp"

namespace shardstream::workloads::product {
namespace {

std::uint64_t total(const std::vector<Range>& strips) {
  return std::accumulate(strips.begin(), strips.end(), std::uint64_t{0},
                         [](std::uint64_t sum, Range strip) { return sum + strip.count; });
}

}  // namespace

HeldMatrix::HeldMatrix(device::Device& device, const io::Matrix& matrix, Axis axis,
                       std::vector<Range> strips, Range across)
    : matrix_(matrix),
      axis_(axis),
      strips_(std::move(strips)),
      across_(across),
      element_(size_of(matrix.type())),
      row_bytes_((axis == Axis::rows ? across.count : total(strips_)) * element_) {
  std::erase_if(strips_, [](Range strip) { return strip.count == 0; });
  std::uint64_t start = 0;
  for (const Range strip : strips_) {
    starts_.push_back(start);
    start += strip.count;
  }
  memory_ = {device, device::Memory::pageable, bytes(matrix, strips_, across)};
}

std::uint64_t HeldMatrix::bytes(const io::Matrix& matrix, const std::vector<Range>& strips,
                                Range across) {
  return total(strips) * across.count * size_of(matrix.type());
}

void HeldMatrix::load(unsigned threads, ranks::Heartbeat& heartbeat, Progress& progress) {
  if (memory_.size() == 0) return;
  constexpr std::uint64_t piece_bytes = std::uint64_t{4} << 20;
  for (std::size_t i = 0; i < strips_.size(); ++i) {
    const Range strip = strips_[i];
    const Range rows = axis_ == Axis::rows ? strip : across_;
    const Range columns = axis_ == Axis::rows ? across_ : strip;
    std::byte* const to =
        memory_.data() + starts_[i] * (axis_ == Axis::rows ? row_bytes_ : element_);
    const std::uint64_t step = std::max<std::uint64_t>(1, piece_bytes / row_bytes_);
    parallel_for(ceil_div(rows.count, step), threads, [&](std::uint64_t number) {
      const Range some = intersection(rows, {rows.first + number * step, step});
      matrix_.read(some, columns, to + number * step * row_bytes_, row_bytes_);
      heartbeat.move();
      progress.add(static_cast<double>(some.count * columns.count * element_));
    });
  }
}

std::uint64_t HeldMatrix::held(std::uint64_t first) const {
  const auto after = std::ranges::upper_bound(strips_, first, {}, &Range::first);
  expect(after != strips_.begin(), "only held parts of a matrix are read");
  const auto i = static_cast<std::size_t>(after - strips_.begin()) - 1;
  return starts_[i] + (first - strips_[i].first);
}

const std::byte* HeldMatrix::place(Range rows, Range columns) const {
  const std::uint64_t row = axis_ == Axis::rows ? held(rows.first) : rows.first - across_.first;
  const std::uint64_t column =
      axis_ == Axis::rows ? columns.first - across_.first : held(columns.first);
  return memory_.data() + row * row_bytes_ + column * element_;
}

const std::byte* HeldMatrix::dense(Range rows, Range columns) const {
  const bool contiguous = rows.count == 1 || columns.count * element_ == row_bytes_;
  return contiguous ? place(rows, columns) : nullptr;
}

void HeldMatrix::read(Range rows, Range columns, std::byte* out, std::size_t out_stride) const {
  const std::byte* const from = place(rows, columns);
  const std::size_t width = columns.count * element_;
  if (width == row_bytes_ && width == out_stride) {
    std::memcpy(out, from, rows.count * width);
    return;
  }
  for (std::uint64_t i = 0; i < rows.count; ++i) {
    std::memcpy(out + i * out_stride, from + i * row_bytes_, width);
  }
}

}  // namespace shardstream::workloads::product
