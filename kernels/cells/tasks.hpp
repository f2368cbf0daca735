// Blocks of elements, and the tasks of a launch, which add them to accumulators. Both lie in memory
// as words, since their length depends on the number of axes.
#pragma once

#include <cstdint>

namespace shardstream::cells {

/// A range of indices along each axis. As words: the first index of each axis, then the number of
/// indices of each.
class Extent {
 public:
  static constexpr std::uint64_t words(unsigned axes) { return 2 * std::uint64_t{axes}; }

  constexpr Extent(const std::uint64_t* words, unsigned axes) : words_(words), axes_(axes) {}

  constexpr std::uint64_t first(unsigned axis) const { return words_[axis]; }
  constexpr std::uint64_t count(unsigned axis) const { return words_[axes_ + axis]; }
  constexpr const std::uint64_t* counts() const { return words_ + axes_; }

 private:
  const std::uint64_t* words_;
  unsigned axes_;
};

/// A dense, row-major block of elements.
class Block {
 public:
  static constexpr std::uint64_t words(unsigned axes) { return 1 + Extent::words(axes); }

  constexpr Block(const std::uint64_t* words, unsigned axes) : words_(words), axes_(axes) {}

  /// Its position in the batch.
  constexpr std::uint64_t first_element() const { return words_[0]; }
  constexpr Extent extent() const { return {words_ + 1, axes_}; }

 private:
  const std::uint64_t* words_;
  unsigned axes_;
};

/// Blocks of one unit that share cells. Tasks of a launch that have accumulators in common have no
/// cells in common.
struct Task {
  static constexpr std::uint64_t words(unsigned axes) { return 4 + Extent::words(axes); }

  std::uint64_t unit;        ///< the number of the unit's accumulators
  std::uint64_t first_cell;  ///< the number of the unit's first cell
  std::uint64_t first_block, end_block;
  Extent extent;  ///< of all blocks together

  constexpr Task(const std::uint64_t* words, unsigned axes)
      : unit(words[0]),
        first_cell(words[1]),
        first_block(words[2]),
        end_block(words[3]),
        extent(words + 4, axes) {}
};

/// Neighbouring elements, at a multiple of this number in the batch, that threads read together.
inline constexpr std::uint64_t vector_elements = 4;

/// A task whose only block is one or several matrices of the same shape, one after another. A row
/// of a matrix has `columns` vectors; the last row may have fewer. The accumulators of a matrix,
/// its items, are numbered by lane and then by cell. If the innermost axis is reduced, a vector has
/// one lane of a cell, and the item of column c is (first_column + c) mod columns. Otherwise a
/// vector has neighbouring items, and those of column c are the vector_elements from
/// ((first_column + c) mod columns) * vector_elements on.
///
/// With groups, there are no lanes. If the innermost axis is kept, each row belongs to one group.
/// Otherwise a matrix is one row, the elements of which belong to groups.
struct DenseTask {
  std::uint64_t matrices = 0;  ///< 0 for a task that is not dense
  std::uint64_t matrix_elements = 0;
  std::uint64_t rows = 0, columns = 0;  ///< rows: whole ones
  std::uint64_t last_columns = 0;       ///< of the row after them
  std::uint64_t first_column = 0;
  std::uint64_t first_index = 0;    ///< along the reduced axis
  std::uint64_t first_element = 0;  ///< its position in the batch
  std::uint64_t unit = 0;           ///< the number of the unit's accumulators
  std::uint64_t unit_cell = 0;      ///< the number of the unit's first cell
  std::uint64_t cell = 0;           ///< the first one of the first matrix
  std::uint64_t cell_step = 0;      ///< to that of the next matrix
  std::uint64_t row_cells = 0;      ///< cells of each lane of a matrix
};

/// The tasks of a launch, in device memory.
struct Tasks {
  const std::uint64_t* blocks = nullptr;  ///< words of all blocks
  const std::uint64_t* words = nullptr;   ///< of the tasks
  const DenseTask* dense = nullptr;       ///< each task, if all of them are dense; only GPUs use it
  unsigned axes = 0;
  std::uint64_t count = 0;
  std::uint64_t max_items = 0;  ///< the maximum of item_count() of the tasks
  std::uint64_t max_rows = 0;   ///< the maximum of DenseTask::rows
  bool has_one_block = false;   ///< each task

  constexpr Task operator[](std::uint64_t t) const { return {words + t * Task::words(axes), axes}; }
  /// Blocks have the numbers from Task::first_block on.
  constexpr Block block(std::uint64_t b) const { return {blocks + b * Block::words(axes), axes}; }
};

}  // namespace shardstream::cells
