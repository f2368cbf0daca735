// The machinery of the experiment texture: the expected results of its kernels, and its rows.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

namespace shardstream::experiments::memory {

/// A warp reads 32 neighbours in a row, or in a column.
constexpr unsigned lanes = 32, warps = 8, threads = lanes * warps;

enum class Through { global, texture, linear_texture };

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

/// Counts elements of a matrix of n x n that differ from the expected result. Conversions of bytes
/// may be rounded in another way.
template <Result Kind>
__global__ void count_wrong_texels(const float* to, std::uint64_t n, unsigned* wrong) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i >= n * n) return;
  bool is_right = false;
  if constexpr (Kind == Result::copied) is_right = to[i] == unit_number(i);
  if constexpr (Kind == Result::transposed) is_right = to[i] == unit_number(i % n * n + i / n);
  if constexpr (Kind == Result::converted) is_right = fabsf(to[i] - byte_at(i) / 255.0F) < 1e-6F;
  if (!is_right) atomicAdd(wrong, 1);
}

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
  double useful;       ///< bytes that the rate counts
  Work work;           ///< of one call
  const char* remark;  ///< of reads through global memory
};

/// Measures cases and adds their rows. Those through textures follow the one through global memory.
class ReadRates {
 public:
  /// Kernels write up to `count` floats.
  ReadRates(Bench& bench, Gpu& gpu, std::uint64_t count)
      : bench_(bench),
        gpu_(gpu),
        to_(count),
        wrong_(1),
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
    if (is_global) through_global_ = rate.value;
    rows_.add({each.part, each.name}, rate, rate.value / ceiling,
              is_global ? each.remark : compared_with_global(rate.value / through_global_),
              each.work, timing.seconds.value);
  }

  /// Whether all elements of the result, a matrix of n x n, are as expected.
  template <Result Kind>
  bool is_right(unsigned n) const {
    wrong_.clear(gpu_.stream());
    count_wrong_texels<Kind>
        <<<blocks_for(std::uint64_t{n} * n, threads), threads, 0, gpu_.stream()>>>(to_.data(), n,
                                                                                   wrong_.data());
    check_launch("count_wrong_texels");
    return wrong_.read()[0] == 0;
  }

  Table table() && { return std::move(rows_).table(); }

 private:
  Bench& bench_;
  Gpu& gpu_;
  DeviceArray<float> to_;
  DeviceArray<unsigned> wrong_;
  Measurements rows_;
  double through_global_ = 0;  ///< GB/s
};

}  // namespace shardstream::experiments::memory
#endif  // SHARDSTREAM_HAS_CUDA
