// Where kernels write the elements of a panel on a GPU.
#pragma once

#include <cstdint>

#include "kernels/gemm/moments.hpp"
#include "kernels/gemm/precision.hpp"

namespace shardstream::gemm::cuda {

/// A matrix with a leading dimension.
template <class T>
struct Whole {
  using Element = T;
  static constexpr unsigned unrolled = 16;  ///< elements of a thread whose addresses are kept
  T* data;
  std::uint64_t ld;

  __device__ T* at(std::uint64_t row, std::uint64_t column) const {
    return data + row * ld + column;
  }
};

/// One plane of a panel. `row` and `column` count variables and samples.
template <class T>
struct InPlane {
  using Element = T;
  static constexpr unsigned unrolled = 4;
  T* data;
  std::uint64_t ld;
  Planes planes;
  Plane plane;
  Side side;

  __device__ T* at(std::uint64_t row, std::uint64_t column) const {
    (side == Side::a ? row : column) = planes.place(side == Side::a ? row : column, plane);
    return data + row * ld + column;
  }
};

}  // namespace shardstream::gemm::cuda
