// How the elements of a source belong to the cells of a result: arithmetic without devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/shard.hpp"
#include "io/source/source.hpp"
#include "kernels/cells/cells.hpp"
#include "kernels/cells/task_list.hpp"

namespace shardstream::workloads {

/// The elements of a source as an array. The elements of each box follow one another.
struct ElementArray {
  std::string name;         ///< for messages
  io::Selection selection;  ///< the used indices of each dimension
  io::Extents box;          ///< the extents of a box, in indices of the data set
  bool is_row = false;      ///< divided as cells::RowUnits say
  /// The elements [first, first+count) as blocks, in order.
  std::function<std::vector<io::ElementOrder::Block>(std::uint64_t first, std::uint64_t count)>
      blocks;
  /// The coordinates in the data set of an element with these selected indices.
  std::function<io::Extents(const io::Extents& indices)> coordinates;
};
/// With the dimensions of the source, which must outlive the array.
ElementArray array_of(const io::Source& source);
/// As one row, in the order of storage. The source must outlive the array.
ElementArray row_of(const io::Source& source);

/// The role of each dimension of an array. The lists have indices of dimensions.
struct CellDimensions {
  std::vector<std::size_t> reduced;         ///< ascending, none of them removed by an index
  std::optional<std::size_t> grouped = {};  ///< one of `reduced`
  std::uint64_t groups = 1;
  /// The group of each index, or -1; empty if it is not known. Must outlive the plan.
  std::span<const std::int32_t> group_of = {};
  std::vector<std::size_t> weighted = {};  ///< ascending
};

class CellPlan {
 public:
  /// Units are multiples of `unit` elements. Throws UsageError if kept and reduced dimensions
  /// alternate more often than kernels support.
  CellPlan(ElementArray array, CellDimensions dimensions, std::uint64_t unit = 1);

  /// Without pointers to device memory.
  const cells::Layout& layout() const { return layout_; }
  const CellDimensions& dimensions() const { return dimensions_; }
  /// The kept dimensions, in ascending order.
  const std::vector<std::size_t>& kept() const { return kept_; }
  std::uint64_t cells() const { return cells_; }
  /// Cells of all groups. Output group * cells() + cell is that of a cell in a group.
  std::uint64_t outputs() const { return cells_ * layout_.groups; }
  /// The values of a cell, in all groups together.
  std::uint64_t values() const { return elements_ / cells_; }

  /// The elements of a unit, and the number of units.
  std::uint64_t unit_elements() const { return unit_; }
  std::uint64_t units() const { return ceil_div(elements_, unit_); }
  Range unit(std::uint64_t number) const {
    return intersection({0, elements_}, {number * unit_, unit_});
  }

  /// An upper bound of the blocks of a shard of up to 64 batches.
  std::uint64_t max_blocks(Range shard) const;
  /// A range of cells that holds those of all elements of a range.
  cells::CellRange cells_of(Range elements) const;
  /// A range of groups that holds those of all elements of a range: all groups, unless the first
  /// axis has the groups.
  cells::GroupRange groups_of(Range elements) const;
  /// A block of elements, and the range of its cells.
  struct Box {
    Range elements;
    cells::CellRange cells;
  };
  /// The largest box that begins with one of the blocks of a range and has up to `max_cells` cells,
  /// at least 1.
  Box largest_box(Range elements, std::uint64_t max_cells) const;

  /// Appends tasks for `elements`, which belong to one unit and are in a batch from element `batch`
  /// on. `slot` is the number of the unit's accumulators, and `first_cell` that of their first
  /// cell.
  void append(Range elements, std::uint64_t batch, std::uint64_t slot, std::uint64_t first_cell,
              cells::TaskList& tasks, cells::TaskSpan& span) const;

  /// One element: its cell, its index along the grouped dimension, the number of its value in the
  /// cell, and the position of its weight.
  struct Element {
    std::uint64_t cell, grouped, value, weight;
  };
  /// Calls use(element) for each element of a range that is one block, in order.
  template <class Use>
  void visit(Range elements, const Use& use) const {
    if (elements.count == 0) return;
    const auto block = array_.blocks(elements.first, elements.count).front();
    io::Extents at = block.start;
    for (std::uint64_t i = 0; i < elements.count; ++i) {
      use(Element{dot(at, cell_steps_), dimensions_.grouped ? at[*dimensions_.grouped] : 0,
                  dot(at, value_steps_), dot(at, weight_steps_)});
      for (std::size_t d = at.size(); d-- > 0;) {
        if (++at[d] < block.start[d] + block.extent[d]) break;
        at[d] = block.start[d];
      }
    }
  }

  /// The selected indices of the reduced dimensions of value `number` of a cell.
  std::vector<std::uint64_t> reduced_indices(std::uint64_t number) const;
  /// The coordinates in the data set of value `number` of the first cell.
  io::Extents coordinates(std::uint64_t number) const;

 private:
  /// Adjacent dimensions [first, end) that form an axis.
  struct Dimensions {
    std::size_t first, end;
  };
  struct AxisBlock;
  struct Hull;

  bool is_reduced(std::size_t dimension) const;
  void set_steps();
  void choose_axes();
  bool may_join(std::size_t dimension) const;
  std::uint64_t cells_of_batch() const;
  void choose_lanes();
  void choose_units(std::uint64_t unit);
  std::uint64_t extent(unsigned axis) const;
  std::uint64_t box_extent(unsigned axis) const;
  AxisBlock on_axes(const io::ElementOrder::Block& block) const;
  bool boxes_are_alike(std::span<const io::ElementOrder::Block> blocks) const;
  std::vector<Hull> divided(std::span<const AxisBlock> blocks) const;
  Range first_axis_of(Range elements) const;
  void append_task(const Hull& hull, std::uint64_t slot, std::uint64_t first_cell,
                   cells::TaskList& tasks, cells::TaskSpan& span) const;
  static std::uint64_t dot(const io::Extents& at, const io::Extents& steps);

  const ElementArray array_;
  CellDimensions dimensions_;
  std::vector<std::size_t> kept_;
  io::Extents counts_;  // of selected indices of all dimensions
  io::Extents cell_steps_, value_steps_, weight_steps_;
  std::vector<Dimensions> axes_;
  cells::Layout layout_;
  std::uint64_t elements_, cells_ = 1, unit_ = 1;
};

}  // namespace shardstream::workloads
