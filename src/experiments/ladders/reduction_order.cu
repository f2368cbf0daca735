// The cost of the fixed order of summation on a GPU, compared with cub::DeviceReduce::Sum of the
// same floats. First comes the kernel of a run, with leaves and tree; then leaves without the tree,
// for other numbers of lanes, leaf sizes and rows in flight.
#include <algorithm>
#include <cmath>
#include <string>

#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/ladders/reduction_order.hpp"
#include "kernels/reduce/reduce.hpp"

#if SHARDSTREAM_HAS_CUDA
#include <cub/device/device_reduce.cuh>
#include "kernels/reduce/leaf.cuh"
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
        "A run adds leaves of 2^16 elements, each of them in 512 lanes, and then adds the leaves "
        "in a fixed tree. The order `program` is the kernel of a run: for the sum, for extremes, "
        "and for the variance, which reads each leaf twice. The order `leaves` is a kernel for "
        "leaves without the tree, with other numbers of lanes, leaf sizes, rows in flight and "
        "types. Both are compared with cub::DeviceReduce::Sum, which adds floats in no fixed "
        "order. For the sum, expect a share of 1 for 2^32 floats and nearly 1 for 2^24; extremes "
        "cost more for 2^24 floats. The second pass of the variance finds leaves in the L2 cache "
        "if that holds one leaf for each multiprocessor; otherwise it takes twice as long. On "
        "CPUs, leaves are compared with a plain read of the same memory. kernels/README.md "
        "states the choices that follow from these measurements.",
    .share =
        "of the rate of CUB for as many floats; on CPUs, of the rate of a plain read by all "
        "cores",
    .options = options,
    .figure =
        {.look = Look::bars, .x = "case", .y = "time", .log_y = true, .more_is_better = false},
    .run = with_cuda<reduction_order>(),
    .run_host = reduction_order_on_host,
};

#if SHARDSTREAM_HAS_CUDA
namespace {

using reduce::Partial;
using reduce::PartialOf;
using reduce::Want;

constexpr unsigned smallest_leaf = 1U << 14;
constexpr unsigned samples = 16;  // number of leaves that a run keeps for its verification

/// Block b adds leaf b, which has `leaf` elements; the last leaf may have fewer.
template <class T, unsigned Lanes, unsigned Flight, bool Extremes, bool Variance>
__global__ void __launch_bounds__(reduce::cuda::leaf_threads<T, Lanes>,
                                  reduce::cuda::min_leaf_blocks<T, Lanes, Variance>)
    make_leaves(const T* elements, std::uint64_t count, unsigned leaf, PartialOf<T>* to) {
  __shared__ alignas(16) unsigned char shared[reduce::cuda::leaf_scratch<Lanes>];
  const std::uint64_t offset = std::uint64_t{blockIdx.x} * leaf, left = count - offset;
  const PartialOf<T> made = reduce::cuda::reduce_leaf<T, Lanes, Extremes, Variance, false, Flight>(
      elements + offset, static_cast<unsigned>(left < leaf ? left : leaf),
      static_cast<std::int64_t>(offset), {}, shared);
  if (threadIdx.x == 0) to[blockIdx.x] = made;
}

constexpr std::uint64_t leaves_of(std::uint64_t count, std::uint64_t leaf) {
  return (count + leaf - 1) / leaf;
}

/// Measures orders of summation for the same floats.
class OnGpu {
 public:
  OnGpu(Bench& bench, Gpu& gpu, std::uint64_t floats)
      : bench_(bench),
        gpu_(gpu),
        x_(floats),
        // The smallest leaves, in bytes and in elements, have the most and the largest nodes.
        partials_(leaves_of(floats, smallest_leaf) * sizeof(Partial<std::int64_t>) +
                  (reduce::max_subtrees + samples) * sizeof(Partial<double>)),
        exchange_(reduce::exchange_words<float>(leaves_of(floats, reduce::leaf_elements))),
        sum_(1) {
    exchange_.clear(gpu.stream());
    fill(x_, gpu.stream());
  }

  /// Sets the number of floats to add: the first `count` ones.
  void take(std::uint64_t count) {
    count_ = count;
    units_ = exact_units(count);
  }
  void cub();
  void program(Want want, const char* remark);
  template <class T, unsigned Lanes, unsigned Flight, bool Extremes = false, bool Variance = false>
  void leaves(const char* type, unsigned leaf = reduce::leaf_elements, const char* remark = "");
  Table table() && { return std::move(rows_).table(); }

 private:
  template <class T>
  void verify_leaves(unsigned leaf, std::uint64_t count, Want want, const std::string& what);
  void verify_sum(double sum, const char* what);

  Bench& bench_;
  Gpu& gpu_;
  Orders rows_;
  DeviceArray<float> x_;
  DeviceArray<std::byte> partials_;
  DeviceArray<std::uint64_t> exchange_;
  DeviceArray<float> sum_;
  std::uint64_t count_ = 0, units_ = 0;  ///< floats to add; their sum, in units of 2^-24
  double cub_ = 0;                       ///< seconds
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
  const double expected = static_cast<double>(units_) * 0x1p-24;
  // CUB adds in float, in long chains.
  bench_.verify(std::abs(double{sum_.read()[0]} / expected - 1) < 1e-4, "cub::DeviceReduce::Sum");
  const Timing timing = gpu_.time([&] { sum(scratch.data()); });
  cub_ = timing.seconds.value;
  const Order order{"CUB", "f32", {}, count_ * sizeof(float)};
  rows_.add(order, timing, cub_, "cub::DeviceReduce::Sum, the yardstick");
}

/// The sum of a leaf is exact: a multiple of 2^-24 below 2^17. So is the sum of up to 2^29 floats.
/// Beyond that, each level of the tree rounds once.
void OnGpu::verify_sum(double sum, const char* what) {
  const double expected = static_cast<double>(units_) * 0x1p-24;
  constexpr double levels = 64;
  const double bound = units_ < (std::uint64_t{1} << 53) ? 0 : levels * 0x1p-53 * expected;
  bench_.verify(std::abs(sum - expected) <= bound, what);
}

/// The kernel of a run with all elements in one batch.
void OnGpu::program(Want want, const char* remark) {
  const std::uint64_t leaves = leaves_of(count_, reduce::leaf_elements);
  auto* const nodes = reinterpret_cast<Partial<double>*>(partials_.data());
  reduce::BatchArgs<float> args{.elements = x_.data(),
                                .count = count_,
                                .first = 0,
                                .leaves = nodes,
                                .largest = nodes + leaves,
                                .samples = nodes + leaves + reduce::max_subtrees,
                                .exchange = exchange_.data(),
                                .want = want,
                                .sample_count = samples,
                                .sampled = {}};
  for (unsigned i = 0; i < samples; ++i) {
    args.sampled[i] = static_cast<std::uint32_t>(leaves * i / samples);
  }
  const auto enqueue = [&] {
    reduce::batch_kernel<float>().cuda(args, gpu_.stream());
    check_launch("reduction in a fixed order");
  };
  partials_.clear(gpu_.stream());
  enqueue();
  verify_leaves<float>(reduce::leaf_elements, count_, want, "the program's reduction");
  std::vector<Partial<double>> largest(reduce::subtrees(args.leaf_range()).size());
  check(cudaMemcpy(largest.data(), args.largest, largest.size() * sizeof(largest[0]),
                   cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  double sum = 0;
  for (const Partial<double>& part : largest) sum += part.sum;
  verify_sum(sum, "the program's reduction");
  const unsigned in_flight =
      want.extremes ? reduce::cuda::flight<float, true> : reduce::cuda::flight<float, false>;
  const Order order{"program",     "f32",
                    want,          count_ * sizeof(float),
                    reduce::lanes, static_cast<unsigned>(reduce::leaf_elements),
                    in_flight};
  rows_.add(order, gpu_.time(enqueue), cub_, remark);
}

/// `count` is the number of elements of type T.
template <class T>
void OnGpu::verify_leaves(unsigned leaf, std::uint64_t count, Want want, const std::string& what) {
  gpu_.synchronize();
  const std::uint64_t leaves = leaves_of(count, leaf);
  std::vector<PartialOf<T>> made(leaves);
  check(cudaMemcpy(made.data(), partials_.data(), leaves * sizeof(made[0]), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  for (const std::uint64_t i : leaves_to_check(leaves)) {
    const auto size = static_cast<unsigned>(std::min<std::uint64_t>(leaf, count - i * leaf));
    bench_.verify(is_leaf_right<T>(i * leaf, size, want, made[i]), what);
  }
  std::uint64_t counted = 0;
  for (const PartialOf<T>& each : made) counted += static_cast<std::uint64_t>(each.count);
  bench_.verify(counted == count, what);
}

template <class T, unsigned Lanes, unsigned Flight, bool Extremes, bool Variance>
void OnGpu::leaves(const char* type, unsigned leaf, const char* remark) {
  const std::uint64_t count = count_ * sizeof(float) / sizeof(T);
  const auto blocks = static_cast<unsigned>(leaves_of(count, leaf));
  const auto enqueue = [&] {
    make_leaves<T, Lanes, Flight, Extremes, Variance>
        <<<blocks, reduce::cuda::leaf_threads<T, Lanes>, 0, gpu_.stream()>>>(
            reinterpret_cast<const T*>(x_.data()), count, leaf,
            reinterpret_cast<PartialOf<T>*>(partials_.data()));
    check_launch("make_leaves");
  };
  Want want;
  want.extremes = Extremes;
  want.variance = Variance;
  partials_.clear(gpu_.stream());
  enqueue();
  verify_leaves<T>(leaf, count, want,
                   formatted("leaves of {} {}, {} lanes, {} rows in flight", leaf,
                             std::string(type), Lanes, Flight));
  const Order order{"leaves", type, want, count * sizeof(T), Lanes, leaf, Flight};
  rows_.add(order, gpu_.time(enqueue), cub_, remark);
}

void vary_leaves(OnGpu& orders) {
  for (unsigned leaf = smallest_leaf; leaf <= reduce::leaf_elements; leaf *= 4) {
    orders.leaves<float, 256, 8>("f32", leaf);
    orders.leaves<float, 512, 8>("f32", leaf);
    orders.leaves<float, 1024, 8>("f32", leaf);
  }
}

/// Varies the rows in flight for leaves of the size that a run uses.
void vary_flight(OnGpu& orders) {
  constexpr unsigned leaf = reduce::leaf_elements;
  orders.leaves<float, 256, 32>("f32");
  orders.leaves<float, 512, 16>("f32");
  orders.leaves<float, 512, 24>("f32");
  orders.leaves<float, 512, 32>("f32", leaf, "the program's leaves, without the tree");
  orders.leaves<float, 1024, 16>("f32");
  orders.leaves<float, 1024, 32>("f32");
}

void vary_types(OnGpu& orders) {
  orders.leaves<double, 512, 8>("f64");
  orders.leaves<double, 1024, 8>("f64");
  orders.leaves<float, 512, 8, true>("f32");
  orders.leaves<float, 512, 16, true>("f32");
  orders.leaves<float, 1024, 8, true>("f32");
  orders.leaves<float, 512, 8, false, true>("f32");
  orders.leaves<float, 1024, 8, false, true>("f32");
  orders.leaves<double, 512, 8, true, true>("f64");
  orders.leaves<double, 1024, 8, true, true>("f64");
  orders.leaves<std::int32_t, 1024, 8>("i32");
  orders.leaves<std::int64_t, 1024, 8>("i64");
  orders.leaves<std::uint8_t, 512, 8>("u8");
  orders.leaves<std::uint8_t, 1024, 8>("u8");
}

}  // namespace

Table reduction_order(Bench& bench) {
  Gpu gpu(bench);
  // The nodes of the tree need a few thousandths of the memory of the floats.
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
    orders.program({}, "leaves and tree, as a run launches it");
    Want extremes, variance;
    extremes.extremes = true;
    variance.variance = true;
    orders.program(extremes, "the same with minimum and maximum");
    orders.program(variance, "the same with variance, by a second pass over each leaf");
    vary_leaves(orders);
    if (count != counts.front()) continue;
    vary_flight(orders);
    vary_types(orders);
  }
  bench.note(
      "A case names type, lanes, leaf and rows in flight, x for extremes and v for variance; the "
      "large count comes first.");
  return std::move(orders).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::ladders
