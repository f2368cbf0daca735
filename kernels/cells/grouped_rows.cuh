// Accumulation on a GPU by group, if tasks are dense and the groups divide rows. The steps of a
// group may lie anywhere in a row, so blocks of threads copy whole rows to shared memory.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <cstdint>

#include "kernels/cells/cells.hpp"
#include "kernels/cells/moments.hpp"
#include "kernels/cells/walk.hpp"

namespace shardstream::cells::cuda {

inline constexpr unsigned grouped_threads = 128;
/// More groups leave too few rows for a block.
inline constexpr unsigned max_row_groups = grouped_threads / 2;

/// Rows that a block of threads has: a thread for each row and group.
constexpr unsigned grouped_rows(std::uint64_t groups) {
  return grouped_threads / static_cast<unsigned>(groups);
}

/// Parts of some rows in shared memory. While one is used, the next one is on its way.
template <class T>
class RowParts {
 public:
  __device__ explicit RowParts(unsigned rows) : pitch_(elements / rows / vector * vector) {}

  /// Elements of a row in a part. Rows are one vector further apart, to use all banks.
  __device__ unsigned width() const { return pitch_ - vector; }
  __device__ const T* row(unsigned part, unsigned row) const {
    return memory()[part] + row * pitch_;
  }
  /// Starts to copy `count` elements of each of `rows` rows, which are `step` apart. Called by all
  /// threads.
  __device__ void ask(unsigned part, const T* from, std::uint64_t step, unsigned rows,
                      unsigned count) {
    const unsigned vectors = count / vector;
    for (unsigned i = threadIdx.x; i < rows * vectors; i += grouped_threads) {
      const unsigned row = i / vectors, at = i % vectors * vector;
      __pipeline_memcpy_async(memory()[part] + row * pitch_ + at, from + row * step + at,
                              sizeof(uint4));
    }
    __pipeline_commit();
  }

 private:
  static constexpr unsigned vector = sizeof(uint4) / sizeof(T);
  static constexpr unsigned elements = 22 * 1024 / sizeof(T);  // two parts of four blocks fit

  __device__ static T (*memory())[elements] {
    __shared__ __align__(sizeof(uint4)) T parts[2][elements];
    return parts;
  }

  unsigned pitch_;
};

/// Adds a value that has been counted, if the quantities need neither its number nor its weight.
template <class T, class Q>
__device__ void add_value(Q quantities, Accumulator<T>& sums, T x) {
  struct Nowhere {
    __device__ std::int64_t number() const { return 0; }
    __device__ double weight() const { return 0; }
  };
  sums.add_each(quantities, [&](const auto& add) { add(x, Nowhere{}); });
}

/// Adds the steps of a group that lie before index `end`: the values x[step - first]. `s` is the
/// position of the next step, and `last` the one after the group's last step.
template <class Q, class T>
__device__ void add_grouped(const T* x, std::uint64_t first, std::uint64_t end,
                            const std::uint64_t* steps, std::uint64_t last, std::uint64_t& s,
                            Accumulator<T>& sums) {
  constexpr unsigned at_once = 4;
  for (; s + at_once <= last && __ldg(steps + s + at_once - 1) < end; s += at_once) {
    T value[at_once];
#pragma unroll
    for (unsigned i = 0; i < at_once; ++i) value[i] = x[__ldg(steps + s + i) - first];
    sums.begin(Q{}, value[0], at_once);
#pragma unroll
    for (unsigned i = 0; i < at_once; ++i) add_value(Q{}, sums, value[i]);
  }
  for (; s < last; ++s) {
    const std::uint64_t step = __ldg(steps + s);
    if (step >= end) break;
    sums.begin(Q{}, x[step - first], 1);
    add_value(Q{}, sums, x[step - first]);
  }
}

/// A block of threads has some rows, and a thread one group of one of them. Neighbouring threads
/// have neighbouring rows, so that they write neighbouring cells.
template <class T, class Q>
__global__ void __launch_bounds__(grouped_threads, 4)
    accumulate_grouped_rows(const __grid_constant__ AccumulateArgs<T> args) {
  const Layout& layout = args.layout;
  const unsigned most = grouped_rows(layout.groups);
  const unsigned row = threadIdx.x % most, group = threadIdx.x / most;
  RowParts<T> parts(most);
  for (std::uint64_t t = blockIdx.y; t < args.tasks.count; t += gridDim.y) {
    const DenseTask& task = args.tasks.dense[t];
    const std::uint64_t first_row = std::uint64_t{blockIdx.x} * most, count = task.matrix_elements;
    if (first_row >= task.matrices) continue;
    const auto rows =
        static_cast<unsigned>(task.matrices - first_row < most ? task.matrices - first_row : most);
    const T* const from = args.elements + task.first_element + first_row * count;
    const auto part_end = [&](std::uint64_t begin) {
      return begin + parts.width() < count ? begin + parts.width() : count;
    };
    const auto ask = [&](unsigned part, std::uint64_t begin) {
      const std::uint64_t end = part_end(begin);
      parts.ask(part, from + begin, count, rows, static_cast<unsigned>(end - begin));
    };
    const bool has_item = row < rows && group < layout.groups;
    std::uint64_t s = 0, last = 0;
    if (has_item) {
      last = layout.first_step[group + 1];
      s = lower_bound(layout.steps, layout.first_step[group], last, task.first_index);
    }
    Accumulator<T> sums;
    ask(0, 0);
    for (std::uint64_t begin = 0, part = 0; begin < count; part = 1 - part) {
      const std::uint64_t end = part_end(begin);
      ask(1 - part, end);
      __pipeline_wait_prior(1);
      __syncthreads();
      if (has_item) {
        add_grouped<Q>(parts.row(part, row), task.first_index + begin, task.first_index + end,
                       layout.steps, last, s, sums);
      }
      __syncthreads();  // the part is no longer used
      begin = end;
    }
    if (!has_item) continue;
    const std::uint64_t cell = task.cell + (first_row + row) * task.cell_step;
    sums.moments(Q{}).store(
        Q{}, args.units.states.words + number_of(args, {task.unit, task.unit_cell, group, 0, cell}),
        args.units.states.values);
  }
}

}  // namespace shardstream::cells::cuda
