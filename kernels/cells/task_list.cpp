#include "kernels/cells/task_list.hpp"

#include <algorithm>

#include "kernels/cells/dense.hpp"

namespace shardstream::cells {
namespace {

void append(std::vector<std::uint64_t>& words, const AxisRanges& indices) {
  words.insert(words.end(), indices.first.begin(), indices.first.end());
  words.insert(words.end(), indices.count.begin(), indices.count.end());
}

}  // namespace

void TaskList::append_block(std::uint64_t first_element, const AxisRanges& indices) {
  blocks_.push_back(first_element);
  append(blocks_, indices);
}

void TaskList::append_task(const Layout& layout, std::uint64_t unit, std::uint64_t first_cell,
                           const AxisRanges& indices, TaskSpan& span) {
  const std::uint64_t end_block = blocks_.size() / Block::words(axes_);
  tasks_.insert(tasks_.end(), {unit, first_cell, free_block_, end_block});
  append(tasks_, indices);
  const Block first(blocks_.data() + free_block_ * Block::words(axes_), axes_);
  dense_.push_back(dense_task(layout, (*this)[count()], first));
  ++span.count;
  span.has_one_block = span.has_one_block && end_block == free_block_ + 1;
  span.is_dense = span.is_dense && dense_.back().matrices > 0;
  span.max_rows = std::max(span.max_rows, dense_.back().rows);
  span.max_items = std::max(span.max_items, item_count(layout, indices.count.data()));
  free_block_ = end_block;
}

Tasks TaskList::in_memory(const TaskSpan& span, const std::uint64_t* block_words,
                          const std::uint64_t* task_words, const DenseTask* dense) const {
  return {.blocks = block_words,
          .words = task_words + span.first * Task::words(axes_),
          .dense = span.is_dense ? dense + span.first : nullptr,
          .axes = axes_,
          .count = span.count,
          .max_items = span.max_items,
          .max_rows = span.max_rows,
          .has_one_block = span.has_one_block};
}

}  // namespace shardstream::cells
