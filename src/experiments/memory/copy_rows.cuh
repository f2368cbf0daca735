// The machinery of the experiment async-copy: data, clocks and rows.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/kernel_resources.hpp"

namespace shardstream::experiments::memory {

/// Number of registers of a thread of `kernel`.
template <class Kernel>
int registers_of(Kernel kernel) {
  return attributes_of(kernel).numRegs;
}

/// Permits `kernel` as much dynamic shared memory as a launch with `bytes` needs.
template <class Kernel>
void permit_shared_memory(Kernel kernel, unsigned bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "cudaFuncSetAttribute");
}

/// The identity of a row: pieces of `bytes` are copied by `method`.
struct CopyCase {
  const char* part;
  const char* method;
  unsigned bytes;
};

/// The data of copies, whose word i is i, and their rows. Each multiprocessor runs one block.
class CopyRows {
 public:
  /// The largest piece has `max_bytes`. A block has `threads` threads and copies `rounds` pieces.
  CopyRows(Bench& bench, Gpu& gpu, unsigned max_bytes, unsigned threads, unsigned rounds)
      : bench_(bench),
        gpu_(gpu),
        threads_(threads),
        rounds_(rounds),
        blocks_(static_cast<unsigned>(gpu.properties().multiProcessorCount)),
        words_(numbers(std::uint64_t{blocks_} * max_bytes / sizeof(unsigned))),
        clocks_(1),
        rows_({{"part", ColumnType::text},
               {"method", ColumnType::text},
               {"piece", ColumnType::integer, "B/block"},
               {"registers", ColumnType::integer}},
              {"clocks", ColumnType::real, "clocks/B"}, Rows::of_kernels) {
    clocks_.clear(gpu.stream());
  }

  Bench& bench() const { return bench_; }
  Gpu& gpu() const { return gpu_; }
  unsigned blocks() const { return blocks_; }
  const unsigned* words() const { return words_.data(); }
  /// The sum of the clocks of all threads, which a kernel increases.
  unsigned long long* clocks() const { return clocks_.data(); }
  /// Bytes that all blocks copy if a piece has `bytes`.
  double all_bytes(unsigned bytes) const { return 1.0 * bytes * rounds_ * blocks_; }

  /// Measures `launch`, which enqueues a kernel that increases clocks(): clocks per byte of a
  /// piece, as a mean over all threads. Adds the row. The first method of a part and size is the
  /// yardstick of the others. `remark`, of clocks per byte, is that of a method that is no
  /// yardstick; empty: its speed.
  double measure(const CopyCase& each, int registers, const std::function<void()>& launch,
                 const Work& work, const std::function<std::string(double)>& remark = {}) {
    const Measured clocks = bench_
                                .sample([&] {
                                  clocks_.clear(gpu_.stream());
                                  launch();
                                  const auto sum = static_cast<double>(clocks_.read()[0]);
                                  return sum / threads_ / all_bytes(each.bytes);
                                })
                                .seconds;
    const auto [yardstick, is_first] =
        yardsticks_.emplace(std::pair{std::string(each.part), each.bytes}, clocks.value);
    const double speed = yardstick->second / clocks.value;
    const std::string text = is_first ? "the yardstick of this size"
                             : remark ? remark(clocks.value)
                                      : formatted("{:.2f} times as fast as the yardstick", speed);
    rows_.add({each.part, each.method, std::int64_t{each.bytes}, std::int64_t{registers}}, clocks,
              speed, text, work, std::numeric_limits<double>::quiet_NaN());
    return clocks.value;
  }

  Table table() && { return std::move(rows_).table(); }

 private:
  static DeviceArray<unsigned> numbers(std::uint64_t count) {
    std::vector<unsigned> words(count);
    for (std::uint64_t i = 0; i < count; ++i) words[i] = static_cast<unsigned>(i);
    return DeviceArray<unsigned>(std::span<const unsigned>(words));
  }

  Bench& bench_;
  Gpu& gpu_;
  unsigned threads_, rounds_, blocks_;
  DeviceArray<unsigned> words_;
  DeviceArray<unsigned long long> clocks_;
  Measurements rows_;
  std::map<std::pair<std::string, unsigned>, double> yardsticks_;  ///< clocks per byte
};

}  // namespace shardstream::experiments::memory
#endif  // SHARDSTREAM_HAS_CUDA
