// What the fixed order of summation costs on a GPU, as a share of cub::DeviceReduce::Sum of the
// same floats: the program's own kernels, leaves and tree, and the leaves alone for other
// numbers of lanes, leaf sizes and rows in flight.
//
//   reduction_order [GiB=16]
#include <cub/device/device_reduce.cuh>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "kernels/reduce/leaf.cuh"
#include "kernels/reduce/reduce.hpp"

namespace shardstream::reduce {
namespace {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(status));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

__global__ void fill(float* x, std::uint64_t count) {
  for (std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; i < count;
       i += std::uint64_t{gridDim.x} * blockDim.x) {
    std::uint64_t h = i * 0x9e3779b97f4a7c15U;
    h = (h ^ (h >> 31)) * 0xbf58476d1ce4e5b9U;
    x[i] = static_cast<float>(h >> 40) * 0x1p-24f;
  }
}

cudaStream_t stream;

/// Median milliseconds of 21 runs, by events, after two more.
double milliseconds(const std::function<void()>& work) {
  cudaEvent_t start, end;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < 23; ++i) {
    CHECK(cudaEventRecord(start, stream));
    work();
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, start, end));
    if (i >= 2) times.push_back(ms);
  }
  CHECK(cudaEventDestroy(start));
  CHECK(cudaEventDestroy(end));
  std::ranges::nth_element(times, times.begin() + 10);
  return times[10];
}

struct Data {
  float* elements;
  std::uint64_t count;
  Partial<double>* partials;
  Partial<double>* scratch;
  double cub;  // ms
};

void print(const Data& data, double ms) {
  std::printf("%8.4f ms, %7.1f GB/s, %.3f of CUB\n", ms, data.count * 4 / ms / 1e6, data.cub / ms);
}

/// As the program launches it for a batch of everything with 16 samples.
void measure_program(const Data& data, const char* what, Want want) {
  const std::uint64_t leaves = (data.count + leaf_elements - 1) / leaf_elements;
  const LeavesArgs<float> make{data.elements, data.count, 0, data.partials, want};
  JoinArgs<double> join{.leaves = data.partials,
                        .scratch = data.scratch,
                        .largest = data.partials + leaves,
                        .samples = data.partials + leaves + SubtreeList::most,
                        .stretch = {0, leaves},
                        .subtrees = subtrees({0, leaves}),
                        .sample_count = 16,
                        .sampled = {}};
  for (unsigned i = 0; i < join.sample_count; ++i) {
    join.sampled[i] = static_cast<std::uint32_t>(leaves * i / join.sample_count);
  }
  const double ms = milliseconds([&] {
    leaves_kernel<float>().cuda(make, stream);
    join_kernel<double>().cuda(join, stream);
    CHECK(cudaGetLastError());
  });
  std::printf("program%s: ", what);
  print(data, ms);
}

template <class T, unsigned Lanes, unsigned Flight, bool Extremes, bool Variance>
__global__ void __launch_bounds__(Lanes / cuda::lanes_per_thread<T>)
    leaves_alone(const T* elements, std::uint64_t count, unsigned leaf_size, PartialOf<T>* to) {
  __shared__ alignas(16) unsigned char shared[cuda::leaf_scratch<Lanes>];
  const std::uint64_t offset = std::uint64_t{blockIdx.x} * leaf_size, left = count - offset;
  const PartialOf<T> leaf = cuda::reduce_leaf<T, Lanes, Extremes, Variance, Flight>(
      elements + offset, static_cast<unsigned>(left < leaf_size ? left : leaf_size),
      static_cast<std::int64_t>(offset), {}, shared);
  if (threadIdx.x == 0) to[blockIdx.x] = leaf;
}

template <class T, unsigned Lanes, unsigned Flight, bool Extremes = false, bool Variance = false>
void measure(const Data& data, const char* type, unsigned leaf) {
  const std::uint64_t count = data.count * 4 / sizeof(T), leaves = (count + leaf - 1) / leaf;
  const double ms = milliseconds([&] {
    leaves_alone<T, Lanes, Flight, Extremes, Variance>
        <<<static_cast<unsigned>(leaves), Lanes / cuda::lanes_per_thread<T>, 0, stream>>>(
            reinterpret_cast<const T*>(data.elements), count, leaf,
            reinterpret_cast<PartialOf<T>*>(data.partials));
    CHECK(cudaGetLastError());
  });
  std::printf("leaves: %-4s %5u lanes, leaf %7u, %2u in flight%s%s: ", type, Lanes, leaf, Flight,
              Extremes ? ", extremes" : "", Variance ? ", variance" : "");
  print(data, ms);
}

void measure_all(const Data& data) {
  std::printf("%.3f GiB: cub::DeviceReduce::Sum of f32: %.4f ms, %.1f GB/s\n",
              data.count * 4 / 1073741824.0, data.cub, data.count * 4 / data.cub / 1e6);
  measure_program(data, "", {});
  measure_program(data, ", extremes", {.extremes = true});
  measure_program(data, ", variance", {.variance = true});
  for (const unsigned leaf : {1U << 14, 1U << 15, 1U << 16, 1U << 17}) {
    measure<float, 256, 8>(data, "f32", leaf);
    measure<float, 512, 8>(data, "f32", leaf);
    measure<float, 1024, 8>(data, "f32", leaf);
  }
  measure<float, 256, 16>(data, "f32", 1 << 16);
  measure<float, 512, 16>(data, "f32", 1 << 16);
  measure<float, 512, 24>(data, "f32", 1 << 16);
  measure<float, 1024, 16>(data, "f32", 1 << 16);
  measure<float, 1024, 4>(data, "f32", 1 << 16);
  measure<double, 512, 8>(data, "f64", 1 << 16);
  measure<double, 1024, 8>(data, "f64", 1 << 16);
  measure<float, 512, 8, true>(data, "f32", 1 << 16);
  measure<float, 512, 16, true>(data, "f32", 1 << 16);
  measure<float, 1024, 8, true>(data, "f32", 1 << 16);
  measure<float, 512, 8, false, true>(data, "f32", 1 << 16);
  measure<float, 1024, 8, false, true>(data, "f32", 1 << 16);
  measure<double, 512, 8, true, true>(data, "f64", 1 << 16);
  measure<double, 1024, 8, true, true>(data, "f64", 1 << 16);
  measure<std::int32_t, 1024, 8>(data, "i32", 1 << 16);
  measure<std::int64_t, 1024, 8>(data, "i64", 1 << 16);
  measure<std::uint8_t, 512, 8>(data, "u8", 1 << 16);
  measure<std::uint8_t, 1024, 8>(data, "u8", 1 << 16);
}

void run(std::uint64_t large) {
  CHECK(cudaStreamCreate(&stream));
  Data data{};
  CHECK(cudaMalloc(&data.elements, large * 4));
  CHECK(cudaMalloc(&data.partials, large * 4 / (1 << 14) * sizeof(Partial<std::int64_t>)));
  CHECK(cudaMalloc(&data.scratch, scratch_nodes(large / leaf_elements) * sizeof(Partial<double>)));
  fill<<<2048, 256, 0, stream>>>(data.elements, large);
  float* sum = nullptr;
  CHECK(cudaMalloc(&sum, sizeof(float)));
  for (const std::uint64_t count : {large, std::uint64_t{1} << 24}) {
    data.count = count;
    std::size_t bytes = 0;
    void* scratch = nullptr;
    const auto cub_sum = [&] {
      CHECK(cub::DeviceReduce::Sum(scratch, bytes, data.elements, sum,
                                   static_cast<std::int64_t>(count), stream));
    };
    cub_sum();
    CHECK(cudaMalloc(&scratch, bytes));
    data.cub = milliseconds(cub_sum);
    measure_all(data);
    CHECK(cudaFree(scratch));
  }
}

}  // namespace
}  // namespace shardstream::reduce

int main(int argc, char** argv) {
  const std::uint64_t gib = static_cast<std::uint64_t>(argc > 1 ? std::atoi(argv[1]) : 16);
  shardstream::reduce::run(gib << 28);
}
