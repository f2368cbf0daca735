// The cost of the fixed order of summation on a GPU, compared with cub::DeviceReduce::Sum of the
// same floats: the units and lanes of a run, and others.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/ladders/gpu_row.cuh"
#include "experiments/ladders/reduction_order.hpp"

#if SHARDSTREAM_HAS_CUDA
#include <cub/device/device_reduce.cuh>
#endif

namespace shardstream::experiments::ladders {

constexpr OptionRow options[] = {
    {"reduction-order.count", OptionKind::count, "2^32", "2^20..",
     "Number of floats to add. The default with --quick is 2^28; on CPUs it is 2^28, "
     "with --quick 2^24. A default is halved until it fits in memory."},
};

Table reduction_order(Bench& bench);

extern const Experiment about_reduction_order = {
    .name = "reduction-order",
    .group = "ladders",
    .summary = "A fixed order of additions, the same on any number of GPUs, costs little time.",
    .explanation =
        {
            .question = "What does a sum cost whose order of additions never changes?",
            .varies =
                "A run adds the elements of a unit, 2^16 to 2^20 of them, in up to 1024 lanes, "
                "which it joins in a fixed tree, and then joins the units. The order `program` has "
                "the units and lanes of a run: for the sum, for extremes, and for the variance "
                "with extremes. The order `row` has others. All are compared with "
                "cub::DeviceReduce::Sum, which adds floats in no fixed order. On CPUs, they are "
                "compared with a plain read of the same memory.",
            .expectation =
                "Expect a share near 1 for 2^32 floats, in which lanes have many elements: memory "
                "limits both, so a row takes as long as CUB. For 2^24 floats, no time is expected. "
                "Joining lanes takes a larger part of smaller units, and with the variance. "
                "kernels/README.md states the choices that follow from these measurements.",
            .pitfalls = "The last joins, of the units, are left out of the times.",
        },
    .read_on = {{Guide::project, "kernels/README.md"},
                {Guide::best_practices, "Floating Point Math Is not Associative"}},
    .share =
        "of the rate of CUB for as many floats; on CPUs, of the rate of a plain read by all "
        "cores",
    .options = options,
    .expected =
        [](const MeasuredRow& row) {
          constexpr double few = 1U << 24;
          return row["count"] > few ? row.measured({{"order", "CUB"}}, {"count"}) : std::nan("");
        },
    .exercise = {.task = "Predict the time in ms of CUB, `f32 sum` and `f32 4096/64K v` for the "
                         "larger count, from your GPU's rate of reading memory.",
                 .rows = {{{"case", "CUB"}}, {{"case", "f32 sum"}}, {{"case", "f32 4096/64K v"}}}},
    .figure =
        {.look = Look::bars, .x = "case", .y = "time", .log_y = true, .more_is_better = false},
    .run = with_cuda<reduction_order>(),
    .run_host = reduction_order_on_host,
};

#if SHARDSTREAM_HAS_CUDA
namespace {

/// Measures orders of summation for the same floats.
class OnGpu {
 public:
  OnGpu(Bench& bench, Gpu& gpu, std::uint64_t floats)
      : bench_(bench), gpu_(gpu), x_(floats), sum_(1) {
    fill(x_, gpu.stream());
  }

  /// Sets the number of floats to add: the first `count` ones.
  void take(std::uint64_t count) { count_ = count; }
  void cub();
  /// Statistics of the floats as T, with the units and lanes of a run, or others.
  template <class T>
  void row(const char* type, cells::Quantities quantities,
           std::optional<cells::RowUnits> size = {});
  Table table() && { return std::move(rows_).table(); }

 private:
  Bench& bench_;
  Gpu& gpu_;
  Orders rows_;
  DeviceArray<float> x_;
  DeviceArray<float> sum_;
  std::uint64_t count_ = 0;  ///< floats to add
  double cub_ = 0;           ///< seconds
};

void OnGpu::cub() {
  std::size_t bytes = 0;
  const auto sum = [&](void* scratch) {
    check(cub::DeviceReduce::Sum(scratch, bytes, x_.data(), sum_.data(),
                                 static_cast<std::int64_t>(count_), gpu_.stream()),
          "cub::DeviceReduce::Sum");
  };
  sum(nullptr);
  const DeviceArray<std::byte> scratch(bytes);
  sum(scratch.data());
  // The floats are uniform between 0 and 1. CUB adds in float, in long chains.
  const double expected = 0.5 * static_cast<double>(count_);
  bench_.verify(std::abs(double{sum_.read()[0]} / expected - 1) < 1e-2, "cub::DeviceReduce::Sum");
  const Timing timing = gpu_.time([&] { sum(scratch.data()); });
  cub_ = timing.seconds.value;
  rows_.add({"CUB", "f32", {}, count_ * sizeof(float)}, timing, cub_,
            "cub::DeviceReduce::Sum, the yardstick");
}

template <class T>
void OnGpu::row(const char* type, cells::Quantities quantities,
                std::optional<cells::RowUnits> size) {
  const std::uint64_t all = count_ * sizeof(float) / sizeof(T);
  const cells::RowUnits own = size.value_or(cells::RowUnits(all));
  const GpuRow<T> row(reinterpret_cast<const T*>(x_.data()), all, own, quantities);
  const auto enqueue = [&] { row.enqueue(gpu_.stream()); };
  enqueue();
  bench_.verify(row.is_right(), formatted("units of {}, {} lanes", type, own.lanes));
  rows_.add({size ? "row" : "program", type, quantities, all * sizeof(T), own.lanes, own.unit},
            gpu_.time(enqueue), cub_, size ? "" : "as a run adds");
}

}  // namespace

Table reduction_order(Bench& bench) {
  Gpu gpu(bench);
  const auto max =
      static_cast<std::uint64_t>(0.4 * static_cast<double>(bench.memory())) / sizeof(float);
  const std::uint64_t usual = std::uint64_t{1} << (bench.is_quick() ? 28 : 32);
  const std::uint64_t large = floats_to_add(bench, usual, max);
  constexpr std::uint64_t small = std::uint64_t{1} << 24;
  OnGpu orders(bench, gpu, large);
  std::vector<std::uint64_t> counts = {large};
  if (large > small) counts.push_back(small);
  for (const std::uint64_t count : counts) {
    orders.take(count);
    orders.cub();
    for (const cells::Quantities quantities : {cells::Quantities(), extremes, squares}) {
      orders.row<float>("f32", quantities);
      orders.row<double>("f64", quantities);
      orders.row<std::int32_t>("i32", quantities);
      orders.row<std::uint8_t>("u8", quantities);
    }
    orders.row<std::int64_t>("i64", {});
    for (const std::uint64_t unit : {1U << 16, 1U << 18, 1U << 20}) {
      for (const std::uint64_t lanes : {256U, 1024U, 4096U}) {
        if (lanes * 16 <= unit) orders.row<float>("f32", squares, cells::RowUnits(unit, lanes));
      }
    }
  }
  bench.note(
      "A case names type, lanes and unit, x for extremes and v for variance; the large count comes "
      "first.");
  return std::move(orders).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::ladders
