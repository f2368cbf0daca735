// The machinery of the experiment texture: the expected results of its kernels, and its rows.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/count_wrong.cuh"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

namespace shardstream::experiments::memory {

/// A warp reads 32 neighbours in a row, or in a column.
constexpr unsigned warps = 8, threads = warp * warps;

enum class Through { global, texture, linear_texture, surface };

constexpr int reach = 2;  // of a neighbourhood of 5 x 5

/// Byte i of a matrix of bytes.
constexpr unsigned char byte_at(std::uint64_t i) {
  return static_cast<unsigned char>(unit_number(i) * 256);
}

__global__ void fill_bytes(unsigned char* bytes, std::uint64_t count) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count) bytes[i] = byte_at(i);
}

enum class Result { copied, transposed, converted };

/// Checks a matrix of n x n. Conversions of bytes may be rounded in another way.
template <Result Kind>
struct IsWrongTexel {
  const float* to;
  std::uint64_t n;

  __device__ bool operator()(std::uint64_t i) const {
    if constexpr (Kind == Result::copied) return to[i] != unit_number(i);
    if constexpr (Kind == Result::transposed) return to[i] != unit_number(i % n * n + i / n);
    return !(fabsf(to[i] - byte_at(i) / 255.0F) < 1e-6F);
  }
};

/// The volume with z as the fastest dimension: element z of the line (x, y) was element (x, y) of
/// matrix z. `plane` is the number of elements of such a matrix.
struct IsWrongLine {
  const float* to;
  std::uint64_t plane, depth;

  __device__ bool operator()(std::uint64_t i) const {
    return to[i] != unit_number(i % depth * plane + i / depth);
  }
};

/// Expects one value everywhere.
struct IsNot {
  const float* to;
  float value;

  __device__ bool operator()(std::uint64_t i) const { return to[i] != value; }
};

/// The sum of a neighbourhood in a matrix of n x n.
inline float sum_around(int n, int x, int y) {
  float sum = 0;
  for (int dy = -reach; dy <= reach; ++dy) {
    for (int dx = -reach; dx <= reach; ++dx) {
      const auto column = static_cast<std::uint64_t>(std::clamp(x + dx, 0, n - 1));
      const auto row = static_cast<std::uint64_t>(std::clamp(y + dy, 0, n - 1));
      sum += unit_number(row * static_cast<std::uint64_t>(n) + column);
    }
  }
  return sum;
}

constexpr int tile = 64;  // rows and columns of the small matrix, 16 KiB
constexpr unsigned rounds = 32, columns = 8, reads = rounds * columns;  // per thread

enum class Access { plain, filtered, clamped, wrapped };

/// The place of a read in the small matrix. So that a part of the addresses to be clamped or
/// wrapped is beyond the edge, these are shifted.
struct TexelPosition {
  int x, y;
};
constexpr TexelPosition place_of(Access kind, unsigned lane, unsigned warp, unsigned round,
                                 unsigned column) {
  const bool is_shifted = kind == Access::clamped || kind == Access::wrapped;
  constexpr int half = tile / 2;
  const auto x = static_cast<int>(lane + 2 * column), y = static_cast<int>((warp + round) % half);
  return is_shifted ? TexelPosition{x + half - 12, y + half + 2} : TexelPosition{x, y};
}

/// A small whole number, so that sums of texels and of quarters of them are exact.
constexpr float texel_at(int x, int y) {
  return static_cast<float>((7 * x + 13 * y) % 32);
}

/// The sum of the texels that a thread reads.
inline float expected_sum(Access kind, unsigned lane, unsigned warp) {
  const auto at = [&](int x, int y) {
    if (kind == Access::wrapped) return texel_at(x % tile, y % tile);
    return texel_at(std::min(x, tile - 1), std::min(y, tile - 1));
  };
  float sum = 0;
  for (unsigned read = 0; read < reads; ++read) {
    const auto [x, y] = place_of(kind, lane, warp, read / columns, read % columns);
    sum += kind != Access::filtered
               ? at(x, y)
               : 0.25F * (at(x, y) + at(x + 1, y) + at(x, y + 1) + at(x + 1, y + 1));
  }
  return sum;
}

/// `ratio` is the rate over the rate of the same reads through global memory.
inline std::string compared_with_global(double ratio) {
  if (ratio > 0.98 && ratio < 1.02) return "as fast as through global memory";
  return ratio > 1 ? formatted("{:.2f} times as fast as through global memory", ratio)
                   : formatted("{:.2f} times as slow as through global memory", 1 / ratio);
}

/// A kernel that reads.
struct ReadCase {
  const char* part;
  const char* name;
  Through through;
  double useful;             ///< bytes that the rate counts
  Work work;                 ///< of one call
  const char* remark;        ///< of reads through global memory
  std::string finding = {};  ///< the end of the remark
  /// The row through global memory to compare with; null: the last one.
  const char* other = nullptr;
};

/// Measures cases and adds their rows. Those through textures follow the one through global memory.
class ReadRates {
 public:
  /// Kernels write up to `count` floats.
  ReadRates(Bench& bench, Gpu& gpu, std::uint64_t count)
      : bench_(bench),
        gpu_(gpu),
        to_(count),
        rows_({{"part", ColumnType::text}, {"case", ColumnType::text}},
              {"rate", ColumnType::real, "GB/s"}, Rows::of_kernels) {}

  Bench& bench() const { return bench_; }
  Gpu& gpu() const { return gpu_; }
  const DeviceArray<float>& to() const { return to_; }

  /// Checks and measures `enqueue`. Its share refers to `ceiling` in GB/s; NaN: to nothing.
  void add(const ReadCase& each, double ceiling, const std::function<void()>& enqueue,
           const std::function<bool()>& is_right) {
    to_.clear(gpu_.stream());
    enqueue();
    bench_.verify(is_right(), each.name);
    const Timing timing = gpu_.time(enqueue);
    const Measured rate = timing.rate(each.useful);
    const bool is_global = each.through == Through::global;
    if (is_global) through_global_[last_global_ = each.name] = rate.value;
    const std::string& other = each.other == nullptr ? last_global_ : each.other;
    const std::string remark =
        is_global ? each.remark : compared_with_global(rate.value / through_global_.at(other));
    rows_.add({each.part, each.name}, rate, rate.value / ceiling, remark + each.finding, each.work,
              timing.seconds.value);
  }

  /// Whether all elements of the result, a matrix of n x n, are as expected.
  template <Result Kind>
  bool is_right(unsigned n) const {
    return count_wrong(std::uint64_t{n} * n, IsWrongTexel<Kind>{to_.data(), n}, gpu_.stream()) == 0;
  }

  Table table() && { return std::move(rows_).table(); }

 private:
  Bench& bench_;
  Gpu& gpu_;
  DeviceArray<float> to_;
  Measurements rows_;
  std::map<std::string, double> through_global_;  ///< GB/s, by the name of the row
  std::string last_global_;
};

}  // namespace shardstream::experiments::memory
#endif  // SHARDSTREAM_HAS_CUDA
