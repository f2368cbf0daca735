// Statistics of a row of elements on a GPU, with the kernels of a run.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <algorithm>
#include <cstdint>
#include <vector>

#include "experiments/gpu.hpp"
#include "experiments/ladders/reduction_order.hpp"

namespace shardstream::experiments::ladders {

/// The moments of each unit of a row. The last step of a run, which joins units, is left out.
template <class T>
class GpuRow {
 public:
  /// `elements`, in device memory, must outlive the object.
  GpuRow(const T* elements, std::uint64_t count, const cells::RowUnits& size,
         cells::Quantities quantities)
      : row_(count, size, quantities, std::min(size.lanes, cells::max_joined_lanes)),
        blocks_(row_.tasks().block_words()),
        tasks_(row_.tasks().task_words()),
        dense_(row_.tasks().dense()),
        lanes_(row_.lane_words()),
        moments_(row_.unit_words()),
        add_(row_.add(elements, blocks_.data(), tasks_.data(), dense_.data(), lanes_.data())),
        join_(row_.join(lanes_.data(), moments_.data())) {}

  void enqueue(cudaStream_t stream) const {
    cells::Kernels<T>::accumulate().cuda(add_, stream);
    cells::Kernels<T>::join().cuda(join_, stream);
    check_launch("reduction in a fixed order");
  }
  /// Waits for the device, as sum() does.
  bool is_right() const {
    std::vector<std::uint64_t> moments = moments_.read();
    return row_.are_right(moments);
  }
  double sum() const {
    std::vector<std::uint64_t> moments = moments_.read();
    return row_.sum(moments);
  }

 private:
  RowOf<T> row_;
  DeviceArray<std::uint64_t> blocks_, tasks_;
  DeviceArray<cells::DenseTask> dense_;
  DeviceArray<std::uint64_t> lanes_, moments_;
  cells::AccumulateArgs<T> add_;
  cells::JoinArgs<T> join_;
};

}  // namespace shardstream::experiments::ladders
#endif  // SHARDSTREAM_HAS_CUDA
