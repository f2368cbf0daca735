// The part of a matrix that one rank reads again and again, in ordinary host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/log.hpp"
#include "core/shard.hpp"
#include "device/buffer.hpp"
#include "io/source/matrix.hpp"
#include "launch/heartbeat.hpp"

namespace shardstream::workloads::product {

enum class Axis : std::uint8_t { rows, columns };

/// Strips of rows or of columns, side by side, as stored.
class HeldMatrix {
 public:
  /// `strips` of the axis ascend and do not overlap; empty strips are skipped. The part `across` of
  /// each strip is held. Allocates the memory and reads nothing yet. Matrix and device must outlive
  /// it.
  HeldMatrix(device::Device& device, const io::Matrix& matrix, Axis axis, std::vector<Range> strips,
             Range across);

  /// Reads everything with `threads` threads, which move the heartbeat and add bytes to the
  /// progress. Throws what the matrix throws.
  void load(unsigned threads, launch::Heartbeat& heartbeat, Progress& progress);

  /// Like Matrix::read(), for a rectangle within one strip.
  void read(Range rows, Range columns, std::byte* out, std::size_t out_stride) const;

  /// The address of the rectangle's elements if its rows are contiguous in memory, else null. The
  /// rectangle lies in one strip and is not empty.
  const std::byte* dense(Range rows, Range columns) const;

  /// Bytes in memory.
  std::uint64_t bytes() const { return memory_.size(); }
  /// Bytes that these strips of a matrix need.
  static std::uint64_t bytes(const io::Matrix& matrix, const std::vector<Range>& strips,
                             Range across);

 private:
  /// The position in memory of row or column `first` of a strip.
  std::uint64_t held(std::uint64_t first) const;
  const std::byte* place(Range rows, Range columns) const;

  const io::Matrix& matrix_;
  Axis axis_;  ///< of the strips
  std::vector<Range> strips_;
  Range across_;
  std::vector<std::uint64_t> starts_;  ///< in memory, of each strip
  std::size_t element_, row_bytes_;    ///< of a row in memory
  device::Buffer<std::byte> memory_;
};

}  // namespace shardstream::workloads::product
