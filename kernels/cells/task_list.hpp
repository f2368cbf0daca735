// Tasks and their blocks on the host, from which kernels get copies in device memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cells/cells.hpp"
#include "kernels/cells/tasks.hpp"

namespace shardstream::cells {

/// Some tasks that follow one another.
struct TaskSpan {
  std::uint64_t first = 0, count = 0;
  std::uint64_t max_items = 0;  ///< the maximum of item_count() of the tasks
  std::uint64_t max_rows = 0;   ///< the maximum of DenseTask::rows
  bool has_one_block = true;    ///< each of them
  bool is_dense = true;         ///< each of them
};

/// Indices of each axis.
struct AxisRanges {
  std::span<const std::uint64_t> first, count;
};

/// Tasks in the order in which they are launched.
class TaskList {
 public:
  explicit TaskList(unsigned axes) : axes_(axes) {}

  std::uint64_t count() const { return dense_.size(); }
  Task operator[](std::uint64_t t) const { return {tasks_.data() + t * Task::words(axes_), axes_}; }

  /// Appends a block of the task that comes next. `first_element`: its position in the batch
  void append_block(std::uint64_t first_element, const AxisRanges& indices);
  /// Appends a task with the blocks since the task before, of a unit with these accumulators, and
  /// adds it to a span that ends here. `indices`: of all of its blocks together
  void append_task(const Layout& layout, std::uint64_t unit, std::uint64_t first_cell,
                   const AxisRanges& indices, TaskSpan& span);

  const std::vector<std::uint64_t>& block_words() const { return blocks_; }
  const std::vector<std::uint64_t>& task_words() const { return tasks_; }
  const std::vector<DenseTask>& dense() const { return dense_; }
  /// The tasks of a span, for kernels, with copies of the lists.
  Tasks in_memory(const TaskSpan& span, const std::uint64_t* block_words,
                  const std::uint64_t* task_words, const DenseTask* dense) const;

 private:
  unsigned axes_;
  std::vector<std::uint64_t> blocks_, tasks_;  // as words
  std::vector<DenseTask> dense_;               // each task
  std::uint64_t free_block_ = 0;               // the first one that belongs to no task
};

}  // namespace shardstream::cells
