// Dense tasks of kernels::cells: each element has the cell and the lane that its indices give.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/shard.hpp"
#include "kernels/cells/dense.hpp"

namespace shardstream::cells {
namespace {

/// One block along axes that are kept ('k') or reduced ('r').
struct Box {
  std::string axes;
  std::vector<std::uint64_t> extents;        ///< of the whole array
  std::vector<std::uint64_t> first, counts;  ///< of the block
  std::uint64_t lanes = 1;                   ///< along the reduced axis
  bool by_rows = false;
  std::uint64_t position = 0;  ///< of the first element in the batch
};

Layout layout_of(const Box& box) {
  Layout layout;
  layout.axes = static_cast<unsigned>(box.axes.size());
  layout.lanes = box.lanes;
  layout.by_rows = box.by_rows;
  std::uint64_t step = 1;
  for (unsigned a = layout.axes; a-- > 0;) {
    const bool is_kept = box.axes[a] == 'k';
    layout.axis[a] = {is_kept, is_kept ? step : 0, is_kept ? 0U : 1U, 0};
    if (is_kept) step *= box.extents[a];
    if (!is_kept && box.lanes > 1) layout.lane_axis = a;
  }
  return layout;
}

DenseTask dense_of(const Box& box, const Layout& layout) {
  std::vector<std::uint64_t> block{box.position}, task{3, 1, 0, 1};
  for (auto* words : {&block, &task}) {
    words->insert(words->end(), box.first.begin(), box.first.end());
    words->insert(words->end(), box.counts.begin(), box.counts.end());
  }
  return dense_task(layout, Task(task.data(), layout.axes), Block(block.data(), layout.axes));
}

struct CellLane {
  std::uint64_t cell, lane;
  bool operator==(const CellLane&) const = default;
};

/// That of element i of the block, in the order of memory.
CellLane expected(const Box& box, const Layout& layout, std::uint64_t i) {
  CellLane place{0, 0};
  for (unsigned a = layout.axes; a-- > 0;) {
    const std::uint64_t index = box.first[a] + i % box.counts[a];
    i /= box.counts[a];
    place.cell += index * layout.axis[a].cell_step;
    if (!layout.axis[a].is_kept) place.lane = index / layout.run() % layout.lanes;
  }
  return place;
}

/// The same, as DenseTask says it.
CellLane found(const DenseTask& task, bool has_rows, std::uint64_t i) {
  const std::uint64_t matrix = i / task.matrix_elements, at = i % task.matrix_elements;
  const std::uint64_t column = at / vector_elements % task.columns;
  const std::uint64_t vector = (task.first_column + column) % task.columns;
  const std::uint64_t cell = task.cell + matrix * task.cell_step;
  if (has_rows) return {cell, vector};
  const std::uint64_t item = vector * vector_elements + at % vector_elements;
  return {cell + item % task.row_cells, item / task.row_cells};
}

void expect_dense(const Box& box) {
  const Layout layout = layout_of(box);
  const DenseTask task = dense_of(box, layout);
  const std::uint64_t elements = saturating_product(box.counts);
  ASSERT_GT(task.matrices, 0U);
  EXPECT_EQ(task.matrices * task.matrix_elements, elements);
  EXPECT_EQ((task.rows * task.columns + task.last_columns) * vector_elements, task.matrix_elements);
  EXPECT_EQ(task.first_element, box.position);
  EXPECT_EQ(task.unit, 3U);
  EXPECT_EQ(task.unit_cell, 1U);
  for (std::uint64_t i = 0; i < elements; ++i) {
    EXPECT_EQ(found(task, box.by_rows, i), expected(box, layout, i)) << "element " << i;
  }
}

TEST(DenseTask, HasTheLanesOfRows) {
  expect_dense({"kr", {9, 96}, {2, 0}, {5, 96}, 8, true});
  expect_dense({"kr", {9, 100}, {0, 44}, {3, 52}, 8, true, 60});  // from the fourth lane on
  expect_dense({"r", {200}, {120}, {80}, 16, true});
}

TEST(DenseTask, HasTheLanesAndCellsOfColumns) {
  expect_dense({"rk", {50, 12}, {7, 0}, {20, 12}});
  expect_dense({"rk", {50, 12}, {7, 4}, {20, 8}, 1, false, 24});  // some cells
  expect_dense({"rk", {50, 12}, {6, 0}, {21, 12}, 4});            // a part of the last row
  expect_dense({"rk", {99, 10}, {6, 0}, {30, 10}, 8});            // lanes within a vector
  expect_dense({"krk", {7, 10, 8}, {1, 3, 0}, {4, 6, 8}});
  expect_dense({"krk", {7, 40, 8}, {1, 3, 0}, {4, 21, 8}, 4});
}

TEST(DenseTask, OthersAreNotDense) {
  const auto expect_other = [](const Box& box) {
    EXPECT_EQ(dense_of(box, layout_of(box)).matrices, 0U) << box.axes;
  };
  expect_other({"rk", {50, 11}, {7, 0}, {20, 11}});                   // rows without alignment
  expect_other({"rk", {50, 12}, {7, 0}, {20, 12}, 1, false, 2});      // nor the first element
  expect_other({"kr", {9, 99}, {0, 0}, {5, 99}, 8, true});            // nor rows
  expect_other({"kr", {9, 96}, {0, 2}, {1, 92}, 8, true});            // a part of a run
  expect_other({"kr", {9, 12}, {0, 0}, {9, 12}});                     // short rows
  expect_other({"kkr", {4, 9, 96}, {0, 0, 0}, {4, 5, 96}, 8, true});  // gaps between matrices
  expect_other({"rkk", {9, 4, 8}, {0, 0, 0}, {9, 2, 8}});
  expect_other({"rkr", {9, 4, 96}, {0, 0, 0}, {9, 4, 96}, 8, true});
}

TEST(DenseTask, HasGroupsWithoutLanes) {
  const auto grouped = [](const Box& box, unsigned axis) {
    Layout layout = layout_of(box);
    layout.group_axis = axis;
    layout.groups = 2;
    return dense_of(box, layout);
  };
  const Box box{"rk", {50, 12}, {7, 0}, {20, 12}};
  const DenseTask task = grouped(box, 0);
  EXPECT_EQ(task.matrices, 1U);
  EXPECT_EQ(task.rows, 20U);
  EXPECT_EQ(task.first_index, 7U);
  EXPECT_EQ(grouped({"krk", {7, 10, 8}, {1, 3, 0}, {4, 6, 8}}, 1).matrices, 4U);
  EXPECT_EQ(grouped({"rk", {50, 12}, {7, 0}, {20, 12}, 4}, 0).matrices, 0U);
  const DenseTask rows = grouped({"kr", {9, 96}, {2, 8}, {5, 80}}, 1);
  EXPECT_EQ(rows.matrices, 5U);
  EXPECT_EQ(rows.matrix_elements, 80U);
  EXPECT_EQ(rows.first_index, 8U);
  EXPECT_EQ(grouped({"kr", {9, 96}, {0, 0}, {5, 94}}, 1).matrices, 0U);
}

}  // namespace
}  // namespace shardstream::cells
