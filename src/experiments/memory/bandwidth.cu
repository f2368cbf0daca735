// The rate of device memory for the kernels of the STREAM benchmark, a plain read and a plain
// write, beside the theoretical rate. A kernel that moves only what it needs, in whole lines, comes
// near to it.
#include <cmath>
#include <string>

#include "experiments/gpu.hpp"
#include "experiments/memory/memory.hpp"

namespace shardstream::experiments::memory {
namespace {

constexpr unsigned threads = 256;
constexpr float factor = 0.4F;

/// Bytes that a kernel reads and writes for an element of the result.
struct Traffic {
  int reads, writes;
};

/// One four-float word a thread: enough loads are in flight with all threads together.
__global__ void write_words(float4* to, std::uint64_t words) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < words) to[i] = make_float4(factor, factor, factor, factor);
}

__global__ void copy_words(const float4* from, float4* to, std::uint64_t words) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < words) to[i] = from[i];
}

__global__ void scale_words(const float4* from, float4* to, std::uint64_t words) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i >= words) return;
  const float4 x = from[i];
  to[i] = make_float4(factor * x.x, factor * x.y, factor * x.z, factor * x.w);
}

/// to = a + s b: `add` with s = 1, `triad` with another one.
__global__ void add_words(const float4* a, const float4* b, float s, float4* to,
                          std::uint64_t words) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i >= words) return;
  const float4 x = a[i], y = b[i];
  to[i] = make_float4(x.x + s * y.x, x.y + s * y.y, x.z + s * y.z, x.w + s * y.w);
}

/// Adds up what it reads, so that nothing is optimised away; each block writes one number.
__global__ void read_words(const float4* from, std::uint64_t words, float* sums) {
  constexpr unsigned per_thread = 8;
  const std::uint64_t first = blockIdx.x * std::uint64_t{threads} * per_thread + threadIdx.x;
  float sum = 0;
#pragma unroll
  for (unsigned k = 0; k < per_thread; ++k) {
    const std::uint64_t i = first + k * threads;
    if (i < words) sum += from[i].x + from[i].y + from[i].z + from[i].w;
  }
  __shared__ float parts[threads];
  parts[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = parts[0];
}

/// Counts elements other than p + q times their index's number.
__global__ void count_wrong(const float* to, std::uint64_t count, float p, float q,
                            unsigned* wrong) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count && fabsf(to[i] - (p + q * unit_number(i))) > 1e-6F) atomicAdd(wrong, 1);
}

/// The arrays of all kernels; a and b hold the same numbers.
struct Arrays {
  std::uint64_t count;
  DeviceArray<float> a, b, to;
  DeviceArray<unsigned> wrong;

  explicit Arrays(std::uint64_t elements)
      : count(elements), a(elements), b(elements), to(elements), wrong(1) {}
  bool has(float p, float q, cudaStream_t stream) const {
    wrong.clear(stream);
    count_wrong<<<blocks_for(count, threads), threads, 0, stream>>>(to.data(), count, p, q,
                                                                    wrong.data());
    check_launch("count_wrong");
    return wrong.read()[0] == 0;
  }
};

/// Whether the sums of read_words() add up to the sum of the numbers, which have the mean 1/2 and
/// the variance 1/12: within six standard deviations.
bool is_sum(const std::vector<float>& sums, std::uint64_t count) {
  double sum = 0;
  for (const float part : sums) sum += part;
  const auto n = static_cast<double>(count);
  return std::abs(sum - n / 2) < 6 * std::sqrt(n / 12);
}

}  // namespace

Table bandwidth(Bench& bench) {
  Gpu gpu(bench);
  const Arrays arrays(bench.bytes("bandwidth.size", {.of_device = 0.25}) / sizeof(float4) * 4);
  const std::uint64_t words = arrays.count / 4;
  fill(arrays.a, gpu.stream());
  fill(arrays.b, gpu.stream());
  const auto* a = reinterpret_cast<const float4*>(arrays.a.data());
  const auto* b = reinterpret_cast<const float4*>(arrays.b.data());
  auto* to = reinterpret_cast<float4*>(arrays.to.data());
  const unsigned blocks = blocks_for(words, threads),
                 blocks_of_read = blocks_for(words, 8 * threads);
  DeviceArray<float> sums(blocks_of_read);
  const cudaStream_t stream = gpu.stream();
  int width = 0, ordinal = 0;
  check(cudaGetDevice(&ordinal), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&width, cudaDevAttrGlobalMemoryBusWidth, ordinal),
        "cudaDeviceGetAttribute");
  const double theoretical = theoretical_rate(bench, width);
  Measurements rows({{"kernel", ColumnType::text}, {"traffic", ColumnType::integer, "B/element"}},
                    {"rate", ColumnType::real, "GB/s"});
  const auto measure = [&](const char* name, Traffic traffic, double ceiling,
                           const std::function<void()>& launch,
                           const std::function<bool()>& right) {
    arrays.to.clear(stream);
    launch();
    bench.verify(right(), name);
    const int bytes = 4 * (traffic.reads + traffic.writes);
    const Estimate rate = gpu.time(launch).rate(static_cast<double>(arrays.count) * bytes);
    rows.add({name, std::int64_t{bytes}}, rate, rate.value / ceiling,
             share_of_theoretical(rate.value, theoretical));
  };
  const double read = bench.ceiling("device_read"), copy = bench.ceiling("device_copy");
  measure(
      "read", {1, 0}, read,
      [&] {
        read_words<<<blocks_of_read, threads, 0, stream>>>(a, words, sums.data());
        check_launch("read_words");
      },
      [&] { return is_sum(sums.read(), arrays.count); });
  measure(
      "write", {0, 1}, copy,
      [&] {
        write_words<<<blocks, threads, 0, stream>>>(to, words);
        check_launch("write_words");
      },
      [&] { return arrays.has(factor, 0, stream); });
  measure(
      "copy", {1, 1}, copy,
      [&] {
        copy_words<<<blocks, threads, 0, stream>>>(a, to, words);
        check_launch("copy_words");
      },
      [&] { return arrays.has(0, 1, stream); });
  measure(
      "scale", {1, 1}, copy,
      [&] {
        scale_words<<<blocks, threads, 0, stream>>>(a, to, words);
        check_launch("scale_words");
      },
      [&] { return arrays.has(0, factor, stream); });
  measure(
      "add", {2, 1}, copy,
      [&] {
        add_words<<<blocks, threads, 0, stream>>>(a, b, 1, to, words);
        check_launch("add_words");
      },
      [&] { return arrays.has(0, 2, stream); });
  measure(
      "triad", {2, 1}, copy,
      [&] {
        add_words<<<blocks, threads, 0, stream>>>(a, b, factor, to, words);
        check_launch("add_words");
      },
      [&] { return arrays.has(0, 1 + factor, stream); });
  return std::move(rows).table();
}

}  // namespace shardstream::experiments::memory
