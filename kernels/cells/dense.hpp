// Which tasks are dense.
#pragma once

#include <cstdint>

#include "kernels/cells/cells.hpp"
#include "kernels/cells/tasks.hpp"

namespace shardstream::cells {

/// The form of a task with one block, which has a row of the innermost axis for each step, or rows
/// of steps. If it has groups, it has no lanes. Otherwise, and if vectors are not aligned, a task
/// that is not dense.
constexpr DenseTask dense_task(const Layout& layout, const Task& task, const Block& block) {
  const unsigned last = layout.axes - 1;
  const bool has_groups = layout.group_axis != no_axis;
  const bool has_rows = layout.run() > 1 || layout.group_axis == last;
  const unsigned reduced = has_rows || last == 0 ? last : last - 1;
  const bool has_form = reduced <= 1 && !layout.axis[reduced].is_kept &&
                        has_rows != layout.axis[last].is_kept &&
                        (!has_groups || (layout.group_axis == reduced && layout.lanes == 1));
  if (!has_form || !layout.has_one_column() || task.end_block != task.first_block + 1) return {};
  const Extent& extent = task.extent;
  // Elements of an index along the reduced axis, and indices that follow one another in a lane.
  const std::uint64_t width = has_rows ? 1 : extent.count(last), run = layout.run();
  const std::uint64_t first = extent.first(reduced), count = extent.count(reduced);
  const std::uint64_t row = has_rows && has_groups ? count : layout.lanes * run * width;
  const std::uint64_t before = first % (layout.lanes * run);
  const auto is_aligned = [](std::uint64_t elements) { return elements % vector_elements == 0; };
  if (!is_aligned(block.first_element()) || !is_aligned(row) || !is_aligned(count * width) ||
      !is_aligned(before * width)) {
    return {};
  }
  DenseTask dense;
  dense.matrices = reduced > 0 ? extent.count(0) : 1;
  dense.matrix_elements = count * width;
  dense.rows = dense.matrix_elements / row;
  dense.columns = row / vector_elements;
  dense.last_columns = dense.matrix_elements % row / vector_elements;
  dense.first_column = before * width / vector_elements;
  dense.first_index = first;
  dense.first_element = block.first_element();
  dense.unit = task.unit;
  dense.unit_cell = task.first_cell;
  for (unsigned a = 0; a < layout.axes; ++a) {
    dense.cell += extent.first(a) * layout.axis[a].cell_step;
  }
  dense.cell_step = reduced > 0 ? layout.axis[0].cell_step : 0;
  dense.row_cells = width;
  return dense;
}

}  // namespace shardstream::cells
