// The rate of device memory for the kernels of the STREAM benchmark, a plain read and a plain
// write, compared with the theoretical rate. A kernel that moves only the data it needs, in whole
// lines, comes close to it.
#include <cmath>
#include <string>

#include "experiments/gpu.hpp"
#include "experiments/memory/memory.hpp"

namespace shardstream::experiments::memory {
namespace {

constexpr unsigned threads = 256;
constexpr float factor = 0.4F;

/// Floats that a kernel reads and writes per element of the result.
struct Traffic {
  int reads, writes;
};

/// Each thread of these kernels handles one word of four floats. All threads together have enough
/// loads in flight.
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

/// to = a + s b: `add` with s = 1, `triad` with another s.
__global__ void add_words(const float4* a, const float4* b, float s, float4* to,
                          std::uint64_t words) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i >= words) return;
  const float4 x = a[i], y = b[i];
  to[i] = make_float4(x.x + s * y.x, x.y + s * y.y, x.z + s * y.z, x.w + s * y.w);
}

/// Adds up the words, so that the compiler cannot remove the reads. Each block writes one sum.
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

/// Counts elements that differ from p + q unit_number(i).
__global__ void count_wrong(const float* to, std::uint64_t count, float p, float q,
                            unsigned* wrong) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count && fabsf(to[i] - (p + q * unit_number(i))) > 1e-6F) atomicAdd(wrong, 1);
}

/// Whether the sums of read_words() add up to the sum of the numbers, within six standard
/// deviations. The numbers have mean 1/2 and variance 1/12.
bool is_sum(const std::vector<float>& sums, std::uint64_t count) {
  double sum = 0;
  for (const float part : sums) sum += part;
  const auto n = static_cast<double>(count);
  return std::abs(sum - n / 2) < 6 * std::sqrt(n / 12);
}

/// Launches the kernels, checks their results and adds their rows. The arrays `a` and `b` hold the
/// same numbers.
class Kernels {
 public:
  Kernels(Bench& bench, Gpu& gpu, Measurements& rows)
      : bench_(bench),
        gpu_(gpu),
        rows_(rows),
        words_(bench.bytes("bandwidth.size", {.of_device = 0.25}) / sizeof(float4)),
        a_(4 * words_),
        b_(4 * words_),
        to_(4 * words_),
        sums_(blocks_for(words_, 8 * threads)),
        wrong_(1),
        theoretical_(theoretical_rate(bench, gpu.properties().memoryBusWidth)) {
    fill(a_, gpu.stream());
    fill(b_, gpu.stream());
  }

  void measure_read() {
    const auto launch = [&] {
      read_words<<<static_cast<unsigned>(sums_.size()), threads, 0, gpu_.stream()>>>(a(), words_,
                                                                                     sums_.data());
      check_launch("read_words");
    };
    measure("read", {1, 0}, bench_.ceiling("device_read"), launch,
            [&] { return is_sum(sums_.read(), to_.size()); });
  }
  /// The kernel writes p + q times the numbers of the arrays.
  template <class... Parameters, class... Arguments>
  void measure_writer(const char* name, Traffic traffic, float p, float q,
                      void (*kernel)(Parameters...), Arguments... arguments) {
    const auto launch = [&] {
      kernel<<<blocks_for(words_, threads), threads, 0, gpu_.stream()>>>(arguments...,
                                                                         words_of(to_), words_);
      check_launch(name);
    };
    measure(name, traffic, bench_.ceiling("device_copy"), launch, [&] { return has(p, q); });
  }
  const float4* a() const { return words_of(a_); }
  const float4* b() const { return words_of(b_); }

 private:
  static float4* words_of(const DeviceArray<float>& array) {
    return reinterpret_cast<float4*>(array.data());
  }
  /// Whether each element of the result is p + q times its number.
  bool has(float p, float q) const {
    wrong_.clear(gpu_.stream());
    count_wrong<<<blocks_for(to_.size(), threads), threads, 0, gpu_.stream()>>>(
        to_.data(), to_.size(), p, q, wrong_.data());
    check_launch("count_wrong");
    return wrong_.read()[0] == 0;
  }
  void measure(const char* name, Traffic traffic, double ceiling,
               const std::function<void()>& launch, const std::function<bool()>& is_right) {
    to_.clear(gpu_.stream());
    launch();
    bench_.verify(is_right(), name);
    const int bytes = 4 * (traffic.reads + traffic.writes);
    const Estimate rate = gpu_.time(launch).rate(static_cast<double>(to_.size()) * bytes);
    rows_.add({name, std::int64_t{bytes}}, rate, rate.value / ceiling,
              share_of_theoretical(rate.value, theoretical_));
  }

  Bench& bench_;
  Gpu& gpu_;
  Measurements& rows_;
  std::uint64_t words_;  ///< of an array
  DeviceArray<float> a_, b_, to_, sums_;
  DeviceArray<unsigned> wrong_;
  double theoretical_;
};

}  // namespace

Table bandwidth(Bench& bench) {
  Gpu gpu(bench);
  Measurements rows({{"kernel", ColumnType::text}, {"traffic", ColumnType::integer, "B/element"}},
                    {"rate", ColumnType::real, "GB/s"});
  Kernels kernels(bench, gpu, rows);
  const float4 *a = kernels.a(), *b = kernels.b();
  kernels.measure_read();
  kernels.measure_writer("write", {0, 1}, factor, 0, write_words);
  kernels.measure_writer("copy", {1, 1}, 0, 1, copy_words, a);
  kernels.measure_writer("scale", {1, 1}, 0, factor, scale_words, a);
  kernels.measure_writer("add", {2, 1}, 0, 2, add_words, a, b, 1.0F);
  kernels.measure_writer("triad", {2, 1}, 0, 1 + factor, add_words, a, b, factor);
  return std::move(rows).table();
}

}  // namespace shardstream::experiments::memory
