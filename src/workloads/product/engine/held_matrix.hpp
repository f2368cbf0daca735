// A copy in ordinary host memory of the part of a matrix that one rank needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/log.hpp"
#include "core/shard.hpp"
#include "device/buffer.hpp"
#include "io/source/matrix.hpp"
#include "ranks/heartbeat.hpp"

namespace shardstream::workloads::product {

enum class Axis : std::uint8_t { rows, columns };

/// Strips of a matrix in the stored type. A strip is a range of rows, or a range of columns. In
/// memory the strips form one dense matrix.
class HeldMatrix {
 public:
  /// `strips` are ranges along the axis; they ascend and do not overlap, and empty ones are
  /// skipped. `across` is the range of each strip along the other axis. Allocates the memory and
  /// reads nothing yet. Matrix and device must outlive it.
  HeldMatrix(device::Device& device, const io::Matrix& matrix, Axis axis, std::vector<Range> strips,
             Range across);

  /// Reads everything with `threads` threads, and reports it to the heartbeat and the progress.
  /// Throws what the matrix throws.
  void load(unsigned threads, ranks::Heartbeat& heartbeat, Progress& progress);

  /// Like Matrix::read(), for a rectangle within one strip.
  void read(Range rows, Range columns, std::byte* out, std::size_t out_stride) const;

  /// The address of the rectangle's elements if the rectangle is contiguous in memory, else null.
  /// It must lie in one strip and not be empty.
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
  std::vector<std::uint64_t> starts_;  ///< where each strip begins in memory, in rows or columns
  std::size_t element_, row_bytes_;    ///< bytes of an element, and of a row in memory
  device::Buffer<std::byte> memory_;
};

}  // namespace shardstream::workloads::product
