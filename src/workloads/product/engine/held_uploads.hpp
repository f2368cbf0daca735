// The parts of A and B that one rank uploads, in host memory, in the form in which they are
// uploaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <tuple>

#include "core/log.hpp"
#include "core/shard.hpp"
#include "device/buffer.hpp"
#include "ranks/heartbeat.hpp"
#include "workloads/product/engine/rectangle.hpp"

namespace shardstream::workloads::product {

/// Rectangles, each with dense rows. One that several batches upload is held once; parts of it that
/// are uploaded as rectangles of their own, as in several passes of a symmetric product, are held
/// again.
class HeldUploads {
 public:
  /// Copies rows of a rectangle to `to` in the form in which they are uploaded, and returns their
  /// checksum. `room` has space for these rows as stored. Thread-safe.
  using Copy = std::function<std::uint64_t(const Rectangle& from, Range rows, std::byte* room,
                                           std::byte* to)>;

  /// Allocates memory of this kind and reads nothing yet. Matrices and device must outlive it.
  HeldUploads(device::Device& device, device::Memory kind, std::span<const Rectangle> rectangles);

  /// Copies everything with `threads` threads, and reports it to the heartbeat and the progress.
  /// Throws what `copy` throws.
  void load(unsigned threads, ranks::Heartbeat& heartbeat, Progress& progress, const Copy& copy);

  /// The address of a row; the rows after it follow. `row` is an index of the matrix.
  const std::byte* row(const Rectangle& of, std::uint64_t row) const;
  /// The checksum of a rectangle after load(); 0 for one without elements.
  std::uint64_t checksum(const Rectangle& of) const;

  /// Bytes in memory.
  std::uint64_t bytes() const { return memory_.size(); }
  /// Bytes that these rectangles need, and those that each thread of load() needs in addition.
  static std::uint64_t bytes(std::span<const Rectangle> rectangles);
  static std::uint64_t room(std::span<const Rectangle> rectangles);

 private:
  /// The matrix, the rows and columns, and the bytes of an element.
  using Key = std::tuple<const io::Matrix*, std::uint64_t, std::uint64_t, std::uint64_t,
                         std::uint64_t, std::size_t>;
  struct Held {
    Rectangle rectangle;
    std::uint64_t offset;  ///< in bytes
    std::uint64_t checksum = 0;
  };
  using Index = std::map<Key, Held>;

  static Key key(const Rectangle& of);
  static Index index_of(std::span<const Rectangle> rectangles);
  static std::uint64_t bytes(const Index& index);

  Index index_;
  device::Buffer<std::byte> memory_;
};

}  // namespace shardstream::workloads::product
