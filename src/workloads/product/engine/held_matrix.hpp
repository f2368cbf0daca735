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

namespace shardstream::workloads {

/// Strips of rows or of columns, one beside the other, as stored.
class HeldMatrix {
 public:
  /// `strips` ascend and do not overlap; empty ones are passed over. Of each the part `across` is
  /// held. Takes the memory and reads nothing yet. Matrix and device must outlive it.
  HeldMatrix(device::Device& device, const io::Matrix& matrix, bool of_rows,
             std::vector<Range> strips, Range across);

  /// Reads all of it on some threads, which move the heartbeat and add bytes to the progress.
  /// Throws what the matrix throws.
  void load(unsigned threads, launch::Heartbeat& heartbeat, Progress& progress);

  /// As Matrix::read(), of a rectangle that lies in one strip.
  void read(Range rows, Range columns, std::byte* out, std::size_t out_stride) const;

  /// Where the rectangle's elements are, if its rows follow one another there; else null. It lies
  /// in one strip and is not empty.
  const std::byte* dense(Range rows, Range columns) const;

  /// In memory.
  std::uint64_t bytes() const { return memory_.size(); }
  /// Bytes that strips of a matrix take.
  static std::uint64_t bytes(const io::Matrix& matrix, const std::vector<Range>& strips,
                             Range across);

 private:
  /// Where in memory the row or column `first` of a strip stands.
  std::uint64_t held(std::uint64_t first) const;
  const std::byte* place(Range rows, Range columns) const;

  const io::Matrix& matrix_;
  bool of_rows_;
  std::vector<Range> strips_;
  Range across_;
  std::vector<std::uint64_t> starts_;  ///< in memory, of each strip
  std::size_t element_, row_bytes_;    ///< of a row in memory
  device::Buffer<std::byte> memory_;
};

}  // namespace shardstream::workloads
