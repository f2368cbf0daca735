#include "workloads/product/engine/held_uploads.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "workloads/product/engine/copy_rows.hpp"

namespace shardstream::workloads::product {

HeldUploads::Key HeldUploads::key(const Rectangle& of) {
  return {of.matrix, of.rows.first, of.rows.count, of.columns.first, of.columns.count, of.element};
}

HeldUploads::Index HeldUploads::index_of(std::span<const Rectangle> rectangles) {
  Index index;
  std::uint64_t end = 0;
  for (const Rectangle& each : rectangles) {
    const auto [at, is_new] = index.try_emplace(key(each), Held{each, end});
    if (is_new) end += aligned(each.bytes());
    const Rectangle& held = at->second.rectangle;
    expect(held.valid_rows == each.valid_rows && held.valid_columns == each.valid_columns &&
               held.rounded == each.rounded,
           "rectangles of the same rows and columns have the same elements");
  }
  return index;
}

namespace {

/// The rows that a thread of load() copies at a time.
std::uint64_t rows_at_once(const Rectangle& of) {
  constexpr std::size_t bytes = std::size_t{4} << 20;
  return std::min(rows_per_piece(bytes, of.stored_row_bytes(), of.row_bytes()), of.rows.count);
}

}  // namespace

std::uint64_t HeldUploads::room(std::span<const Rectangle> rectangles) {
  std::uint64_t bytes = 0;
  for (const Rectangle& each : rectangles) {
    bytes = std::max(bytes, rows_at_once(each) * each.stored_row_bytes());
  }
  return bytes;
}

std::uint64_t HeldUploads::bytes(const Index& index) {
  std::uint64_t bytes = 0;
  for (const auto& [key, held] : index) bytes += aligned(held.rectangle.bytes());
  return bytes;
}

std::uint64_t HeldUploads::bytes(std::span<const Rectangle> rectangles) {
  return bytes(index_of(rectangles));
}

HeldUploads::HeldUploads(device::Device& device, device::Memory kind,
                         std::span<const Rectangle> rectangles)
    : index_(index_of(rectangles)), memory_(device, kind, bytes(index_)) {}

void HeldUploads::load(unsigned threads, ranks::Heartbeat& heartbeat, Progress& progress,
                       const Copy& copy) {
  struct Step {
    Held* of;
    Range rows;
  };
  std::vector<Step> steps;
  for (auto& [key, held] : index_) {
    const Rectangle& all = held.rectangle;
    held.checksum = 0;
    const std::uint64_t rows = rows_at_once(all);
    for (std::uint64_t first = all.rows.first; first < all.rows.end(); first += rows) {
      steps.push_back({&held, intersection({first, rows}, all.rows)});
    }
  }
  parallel_for(steps.size(), threads, [&](std::uint64_t number) {
    const auto [of, rows] = steps[number];
    const Rectangle& from = of->rectangle;
    const auto room =
        std::make_unique_for_overwrite<std::byte[]>(rows.count * from.stored_row_bytes());
    std::byte* const to =
        memory_.data() + of->offset + (rows.first - from.rows.first) * from.row_bytes();
    std::atomic_ref(of->checksum) += copy(from, rows, room.get(), to);
    heartbeat.move();
    progress.add(static_cast<double>(rows.count * from.row_bytes()));
  });
}

const std::byte* HeldUploads::row(const Rectangle& of, std::uint64_t row) const {
  const std::uint64_t before = row - of.rows.first;
  return memory_.data() + index_.at(key(of)).offset + before * of.row_bytes();
}

std::uint64_t HeldUploads::checksum(const Rectangle& of) const {
  return of.bytes() == 0 ? 0 : index_.at(key(of)).checksum;
}

}  // namespace shardstream::workloads::product
