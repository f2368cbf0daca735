#include "workloads/reduce/cells/cell_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "core/error.hpp"
#include "kernels/cells/row_units.hpp"
#include "kernels/cells/tree.hpp"

namespace shardstream::workloads {
namespace {

/// Accumulators of a unit that keep a GPU at work while one batch is streamed.
constexpr std::uint64_t enough_accumulators = std::uint64_t{1} << 13;
/// A lane of a row has this number of values or more. Rows of several lanes have 8 or more, which
/// read a whole cache line together.
constexpr std::uint64_t values_of_lane = 32, min_row_lanes = 8;
/// Units are shared by the ranks, and those of a resident shard are computed at the same time. So
/// there are many of them, but not so many that their accumulators take much memory.
constexpr std::uint64_t max_units = 64, min_units = 8;
constexpr std::uint64_t max_cells_of_units = std::uint64_t{1} << 23;
/// Joining the units of a cell takes little time beside adding this number of values to each.
constexpr std::uint64_t values_of_unit = 256;
/// Units have this number of values of each cell and group or more, if min_units allow it: joining
/// takes longer than adding only some of them.
constexpr std::uint64_t few_values = 32;
/// Larger data have more units, for more ranks.
constexpr std::uint64_t max_unit_elements = std::uint64_t{1} << 30;
constexpr std::uint64_t min_unit_elements = std::uint64_t{1} << 16;

bool has(const std::vector<std::size_t>& list, std::size_t value) {
  return std::ranges::find(list, value) != list.end();
}

/// The steps of a row-major number over some dimensions; 0 for the others.
io::Extents steps_over(const std::vector<std::size_t>& dimensions, const io::Extents& counts) {
  io::Extents steps(counts.size(), 0);
  std::uint64_t step = 1;
  for (auto d = dimensions.rbegin(); d != dimensions.rend(); ++d) {
    steps[*d] = step;
    step *= counts[*d];
  }
  return steps;
}

}  // namespace

/// A block in indices of axes.
struct CellPlan::AxisBlock {
  std::uint64_t first_element;
  std::vector<std::uint64_t> first, count;
};

/// The smallest ranges of indices that contain some blocks.
struct CellPlan::Hull {
  std::vector<std::uint64_t> low, high;
  std::vector<const AxisBlock*> blocks;  // in order

  explicit Hull(const AxisBlock& block) : low(block.first), high(block.first), blocks{&block} {
    for (std::size_t a = 0; a < low.size(); ++a) high[a] += block.count[a];
  }
  bool shares_cells(const Hull& other, const cells::Layout& layout) const {
    for (std::size_t a = 0; a < low.size(); ++a) {
      if (layout.axis[a].is_kept && (other.low[a] >= high[a] || low[a] >= other.high[a])) {
        return false;
      }
    }
    return true;
  }
  void add(const Hull& other) {
    for (std::size_t a = 0; a < low.size(); ++a) {
      low[a] = std::min(low[a], other.low[a]);
      high[a] = std::max(high[a], other.high[a]);
    }
    blocks.insert(blocks.end(), other.blocks.begin(), other.blocks.end());
  }
};

ElementArray array_of(const io::Source& source) {
  io::Selection selection;
  for (const io::SourceDimension& each : source.dimensions()) selection.push_back(each.axis);
  return {.name = source.name(),
          .selection = selection,
          .box = source.box(),
          .blocks = [&source](std::uint64_t first,
                              std::uint64_t count) { return source.blocks(first, count); },
          .coordinates =
              [selection](const io::Extents& indices) {
                io::Extents at;
                for (std::size_t d = 0; d < indices.size(); ++d) {
                  at.push_back(selection[d][indices[d]]);
                }
                return at;
              }};
}

ElementArray row_of(const io::Source& source) {
  const std::uint64_t elements = source.count();
  using Block = io::ElementOrder::Block;
  return {
      .name = source.name(),
      .selection = io::whole({elements}),
      .box = {elements},
      .is_row = true,
      .blocks =
          [elements](std::uint64_t first, std::uint64_t count) {
            return std::vector{Block{{first}, {count}, count, {0}, {elements}}};
          },
      .coordinates =
          [&source](const io::Extents& indices) { return source.coordinates(indices.front()); }};
}

CellPlan::CellPlan(ElementArray array, CellDimensions dimensions, std::uint64_t unit)
    : array_(std::move(array)),
      dimensions_(std::move(dimensions)),
      counts_(io::counts_of(array_.selection)),
      elements_(saturating_product(counts_)) {
  set_steps();
  choose_axes();
  choose_lanes();
  choose_units(unit);
}

bool CellPlan::is_reduced(std::size_t dimension) const {
  return has(dimensions_.reduced, dimension);
}

void CellPlan::set_steps() {
  for (std::size_t d = 0; d < counts_.size(); ++d) {
    if (is_reduced(d) || array_.selection[d].is_index) continue;
    kept_.push_back(d);
    cells_ *= counts_[d];
  }
  cell_steps_ = steps_over(kept_, counts_);
  value_steps_ = steps_over(dimensions_.reduced, counts_);
  weight_steps_ = steps_over(dimensions_.weighted, counts_);
  layout_.groups = dimensions_.groups;
}

/// Whether a dimension may be joined with the one before it. Its boxes must cover it, so that a
/// block is a range of the joined indices.
bool CellPlan::may_join(std::size_t dimension) const {
  const std::size_t before = axes_.back().end - 1;
  const auto grouped = dimensions_.grouped;
  return before + 1 == dimension && is_reduced(before) == is_reduced(dimension) &&
         grouped != before && grouped != dimension &&
         array_.box[dimension] > array_.selection[dimension].last() &&
         weight_steps_[before] == weight_steps_[dimension] * counts_[dimension];
}

/// Dimensions with a single index are left out, but one axis must be reduced.
void CellPlan::choose_axes() {
  const bool is_empty =
      std::ranges::all_of(dimensions_.reduced, [this](std::size_t d) { return counts_[d] == 1; });
  for (std::size_t d = 0; d < counts_.size(); ++d) {
    const bool is_needed =
        dimensions_.grouped == d || (is_empty && dimensions_.reduced.front() == d);
    if (counts_[d] == 1 && !is_needed) continue;
    if (!axes_.empty() && may_join(d)) {
      axes_.back().end = d + 1;
    } else {
      axes_.push_back({d, d + 1});
    }
  }
  if (axes_.size() > cells::max_axes) {
    throw UsageError(
        fmt::format("reduce.over: dimensions of {} that are kept and reduced alternate {} times, "
                    "but at most {} "
                    "are supported: name neighbouring dimensions",
                    array_.name, axes_.size(), cells::max_axes));
  }
  layout_.axes = static_cast<unsigned>(axes_.size());
  for (unsigned a = 0; a < layout_.axes; ++a) {
    const std::size_t last = axes_[a].end - 1;
    layout_.axis[a] = {!is_reduced(last), cell_steps_[last], value_steps_[last],
                       weight_steps_[last]};
    if (dimensions_.grouped == last) layout_.group_axis = a;
  }
}

/// The number of indices along an axis.
std::uint64_t CellPlan::extent(unsigned axis) const {
  std::uint64_t extent = 1;
  for (std::size_t d = axes_[axis].first; d < axes_[axis].end; ++d) extent *= counts_[d];
  return extent;
}

/// The number of indices along an axis in a full box.
std::uint64_t CellPlan::box_extent(unsigned axis) const {
  std::uint64_t extent = 1;
  for (std::size_t d = axes_[axis].first; d < axes_[axis].end; ++d) {
    const io::Axis& own = array_.selection[d];
    extent *= std::min(own.count, ceil_div(array_.box[d], own.step));
  }
  return extent;
}

/// Cells that a batch of usual size has, or more.
std::uint64_t CellPlan::cells_of_batch() const {
  if (!layout_.axis[0].is_kept) return cells_;
  constexpr std::uint64_t batch = std::uint64_t{1} << 24;
  const std::uint64_t indices = extent(0);
  return cells_ / indices *
         std::min(indices, std::max<std::uint64_t>(1, batch / (elements_ / indices)));
}

/// Lanes are those of the longest reduced axis, or of rows if these have enough.
void CellPlan::choose_lanes() {
  const unsigned innermost = layout_.axes - 1;
  layout_.by_rows = !layout_.axis[innermost].is_kept && layout_.group_axis == cells::no_axis &&
                    box_extent(innermost) >= values_of_lane;
  std::uint64_t longest = 0;
  for (unsigned a = 0; a < layout_.axes; ++a) {
    if (layout_.axis[a].is_kept) continue;
    const std::uint64_t values = a == innermost && layout_.by_rows ? values_of_lane : 1;
    const std::uint64_t groups = a == layout_.group_axis ? layout_.groups : 1;
    const std::uint64_t lanes = extent(a) / (values * groups);
    if (lanes < longest) continue;
    longest = lanes;
    layout_.lane_axis = a;
  }
  const std::uint64_t outputs_of_batch = cells_of_batch() * layout_.groups;
  std::uint64_t wanted = enough_accumulators / std::max<std::uint64_t>(outputs_of_batch, 1);
  const std::uint64_t of_row = layout_.by_rows ? extent(innermost) / values_of_lane : 0;
  if (of_row >= std::max(wanted, min_row_lanes)) {
    layout_.lane_axis = innermost;
    longest = of_row;
    wanted = std::max(wanted, min_row_lanes);
  }
  if (array_.is_row) wanted = cells::RowUnits(elements_).lanes;
  layout_.lanes = std::bit_floor(std::max<std::uint64_t>(1, std::min(longest, wanted)));
  if (layout_.lanes == 1) layout_.lane_axis = cells::no_axis;
}

void CellPlan::choose_units(std::uint64_t unit) {
  if (array_.is_row) {
    unit_ = cells::RowUnits(elements_).unit;
    return;
  }
  const std::uint64_t values_of_output = values() / layout_.groups;
  std::uint64_t most = max_cells_of_units / outputs();
  if (!layout_.axis[0].is_kept) most = std::min(most, values_of_output / few_values);
  const std::uint64_t few = std::bit_floor(std::clamp(most, min_units, max_units));
  // More units, if the cells are few beside the elements.
  const std::uint64_t many = std::min(
      max_units, std::bit_floor(std::max<std::uint64_t>(values_of_output / values_of_unit, 1)));
  const std::uint64_t units = std::max({few, many, ceil_div(elements_, max_unit_elements)});
  unit_ = std::max(ceil_div(elements_, units), min_unit_elements);
  // Whole rows if they are short, so that fewer blocks are parts of rows.
  std::uint64_t row = 1;
  for (std::size_t d = counts_.size(); d-- > 0 && row * counts_[d] <= unit_ / 8;) row *= counts_[d];
  unit_ = ceil_div(unit_, row) * row;
  unit_ = ceil_div(unit_, unit) * unit;
}

CellPlan::AxisBlock CellPlan::on_axes(const io::ElementOrder::Block& block) const {
  AxisBlock result{0, {}, {}};
  for (const auto& [first, end] : axes_) {
    std::uint64_t at = 0, count = 1;
    for (std::size_t d = first; d < end; ++d) {
      expect(count == 1 || block.extent[d] == counts_[d], "a block is a range of an axis");
      at = at * counts_[d] + block.start[d];
      count *= block.extent[d];
    }
    result.first.push_back(at);
    result.count.push_back(count);
  }
  return result;
}

std::uint64_t CellPlan::max_blocks(Range shard) const {
  std::uint64_t boxes = 1;
  for (std::size_t d = 0; d < counts_.size(); ++d) {
    boxes = saturating_product(boxes, ceil_div(array_.selection[d].last() + 1, array_.box[d]));
  }
  const double share = static_cast<double>(shard.count) / static_cast<double>(elements_);
  const std::uint64_t cuts = 2 * counts_.size() * (units() + 64);  // at ends of units and batches
  return static_cast<std::uint64_t>(static_cast<double>(boxes) * share) + 2 + cuts;
}

/// A range of indices along the first axis that holds those of all elements of a range, which is
/// not empty.
Range CellPlan::first_axis_of(Range elements) const {
  const auto first = array_.blocks(elements.first, 1).front();
  const auto last = array_.blocks(elements.end() - 1, 1).front();
  auto begin = first.start, end = last.start;
  if (first.box_start != last.box_start) {
    begin = first.box_start;
    end = last.box_start;
    for (std::size_t d = 0; d < end.size(); ++d) end[d] += last.box_extent[d] - 1;
  }
  std::uint64_t low = 0, high = 0;
  for (std::size_t d = axes_[0].first; d < axes_[0].end; ++d) {
    low = low * counts_[d] + begin[d];
    high = high * counts_[d] + end[d];
  }
  return {low, high + 1 - low};
}

cells::CellRange CellPlan::cells_of(Range elements) const {
  if (elements.count == 0 || cells_ == 0) return {0, 0};
  if (!layout_.axis[0].is_kept) return {0, cells_};
  const Range indices = first_axis_of(elements);
  const std::uint64_t step = layout_.axis[0].cell_step;
  return {indices.first * step, indices.count * step};
}

cells::GroupRange CellPlan::groups_of(Range elements) const {
  if (layout_.group_axis != 0 || dimensions_.group_of.empty()) return {0, layout_.groups};
  if (elements.count == 0) return {0, 0};
  const Range indices = first_axis_of(elements);
  cells::GroupRange groups{0, 0};
  for (const std::int32_t group : dimensions_.group_of.subspan(indices.first, indices.count)) {
    if (group >= 0) groups = hull(groups, cells::GroupRange{static_cast<std::uint64_t>(group), 1});
  }
  return groups;
}

/// A box begins with a block and ends before the numbers of its cells span too wide a range.
CellPlan::Box CellPlan::largest_box(Range elements, std::uint64_t max_cells) const {
  Box largest{{elements.first, 0}, {0, 0}};
  std::uint64_t at = elements.first;
  for (const auto& block : array_.blocks(elements.first, elements.count)) {
    std::uint64_t low = 0, span = 1, count = 1;
    bool is_whole = true;  // so far, from the innermost dimension
    for (std::size_t d = counts_.size(); d-- > 0;) {
      low += block.start[d] * cell_steps_[d];
      if (!is_whole) continue;
      const std::uint64_t step = cell_steps_[d], room = max_cells - span;
      const std::uint64_t extent =
          step == 0 ? block.extent[d] : std::min(block.extent[d], 1 + room / step);
      span += (extent - 1) * step;
      count *= extent;
      is_whole = extent == block.extent[d];
    }
    if (count > largest.elements.count) largest = {{at, count}, {low, span}};
    at += block.count;
  }
  return largest;
}

void CellPlan::append(Range elements, std::uint64_t batch, std::uint64_t slot,
                      std::uint64_t first_cell, cells::TaskList& tasks,
                      cells::TaskSpan& span) const {
  if (elements.count == 0) return;
  const auto blocks = array_.blocks(elements.first, elements.count);
  // Blocks of boxes with the same kept indices share cells. Joined files may have boxes of several
  // shapes, which share some cells.
  const bool are_alike = boxes_are_alike(blocks);
  std::map<std::vector<std::uint64_t>, std::vector<AxisBlock>> columns;
  std::uint64_t at = elements.first - batch;
  for (const auto& block : blocks) {
    std::vector<std::uint64_t> key;
    for (const std::size_t d : kept_) key.push_back(are_alike ? block.box_start[d] : 0);
    AxisBlock own = on_axes(block);
    own.first_element = at;
    at += block.count;
    columns[std::move(key)].push_back(std::move(own));
  }
  for (const auto& [key, own] : columns) {
    for (const Hull& hull : divided(own)) append_task(hull, slot, first_cell, tasks, span);
  }
}

/// Whether boxes have the same kept indices or none in common, along each kept dimension.
bool CellPlan::boxes_are_alike(std::span<const io::ElementOrder::Block> blocks) const {
  for (const std::size_t d : kept_) {
    std::map<std::uint64_t, std::uint64_t> ends;  // of boxes, by their first index
    for (const auto& block : blocks) {
      const std::uint64_t end = block.box_start[d] + block.box_extent[d];
      if (ends.emplace(block.box_start[d], end).first->second != end) return false;
    }
    std::uint64_t last = 0;
    for (const auto& [first, end] : ends) {
      if (first < last) return false;
      last = end;
    }
  }
  return true;
}

/// Blocks that may have no cells in common, such as the end of one row and the beginning of the
/// next, become several tasks, so that no threads are launched for the cells between them.
std::vector<CellPlan::Hull> CellPlan::divided(std::span<const AxisBlock> blocks) const {
  constexpr std::size_t few = 8;
  std::vector<Hull> hulls;
  for (const AxisBlock& block : blocks) {
    Hull hull(block);
    for (bool grows = true; grows;) {
      const auto shared = std::ranges::find_if(hulls, [&](const Hull& known) {
        return blocks.size() > few || known.shares_cells(hull, layout_);
      });
      grows = shared != hulls.end();
      if (!grows) break;
      hull.add(*shared);
      hulls.erase(shared);
    }
    hulls.push_back(std::move(hull));
  }
  for (Hull& hull : hulls) std::ranges::sort(hull.blocks);
  return hulls;
}

void CellPlan::append_task(const Hull& hull, std::uint64_t slot, std::uint64_t first_cell,
                           cells::TaskList& tasks, cells::TaskSpan& span) const {
  for (const AxisBlock* block : hull.blocks) {
    tasks.append_block(block->first_element, {block->first, block->count});
  }
  std::vector<std::uint64_t> counts(layout_.axes);
  for (unsigned a = 0; a < layout_.axes; ++a) counts[a] = hull.high[a] - hull.low[a];
  tasks.append_task(layout_, slot, first_cell, {hull.low, counts}, span);
}

std::uint64_t CellPlan::dot(const io::Extents& at, const io::Extents& steps) {
  std::uint64_t sum = 0;
  for (std::size_t d = 0; d < at.size(); ++d) sum += at[d] * steps[d];
  return sum;
}

std::vector<std::uint64_t> CellPlan::reduced_indices(std::uint64_t number) const {
  std::vector<std::uint64_t> indices;
  for (const std::size_t d : dimensions_.reduced) {
    indices.push_back(number / value_steps_[d] % counts_[d]);
  }
  return indices;
}

io::Extents CellPlan::coordinates(std::uint64_t number) const {
  io::Extents indices(counts_.size(), 0);
  const std::vector<std::uint64_t> reduced = reduced_indices(number);
  for (std::size_t i = 0; i < reduced.size(); ++i) indices[dimensions_.reduced[i]] = reduced[i];
  return array_.coordinates(indices);
}

}  // namespace shardstream::workloads
