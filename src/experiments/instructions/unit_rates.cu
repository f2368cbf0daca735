#include "experiments/instructions/unit_rates.hpp"

#include <string_view>

#include "experiments/context.hpp"
#include "experiments/formatted.hpp"
#include "experiments/instructions/precision_units.cuh"
#include "experiments/instructions/theoretical_peak.hpp"

namespace shardstream::experiments::instructions {
namespace {

constexpr unsigned threads = 256, unrolled = 16, usual_rounds = 32;
constexpr unsigned chains = 4, turning_chains = 8;

template <class U>
__device__ void add_product(typename U::Sums& sums, typename U::A& a, typename U::B& b) {
  U::multiply_add(sums, a, b);
  U::permute(a);
  U::permute(b);
}

/// Adds the product of `a` and `b` to the sums of a group, and stores the total of the sums.
template <class U, unsigned Chains>
__device__ void store_total(typename U::Sums (&sums)[Chains], const typename U::A& a,
                            const typename U::B& b, float* results) {
  const unsigned lane = threadIdx.x % U::group;
  float* const own = results + (blockIdx.x * threads + threadIdx.x) / U::group * outputs;
#pragma unroll
  for (unsigned c = 0; c < Chains; ++c) {
    U::multiply_add(sums[c], a, b);
    U::each(sums[c], lane, [&](unsigned row, unsigned column, double value) {
      float& total = own[row * columns + column];
      total = c == 0 ? static_cast<float>(value) : total + static_cast<float>(value);
    });
  }
}

/// Each group adds a product of small elements to `chains` sums and subtracts it again, 16 times in
/// each round. At last it adds the product once more, and stores the total of the sums.
template <class U>
__global__ void __launch_bounds__(threads) repeat(unsigned rounds, float* results) {
  const unsigned lane = threadIdx.x % U::group;
  auto a = U::load_a(SmallElements{1}, 0, lane);
  auto minus_a = U::load_a(SmallElements{-1}, 0, lane);
  auto b = U::load_b(SmallElements{}, 0, lane);
  typename U::Sums sums[chains];
#pragma unroll
  for (unsigned c = 0; c < chains; ++c) sums[c] = U::start(static_cast<float>(c));
#pragma unroll 1
  for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll
    for (unsigned step = 0; step < unrolled; ++step) {
#pragma unroll
      for (unsigned c = 0; c < chains; ++c) add_product<U>(sums[c], a, b);
#pragma unroll
      for (unsigned c = 0; c < chains; ++c) add_product<U>(sums[c], minus_a, b);
    }
  }
  store_total<U>(sums, a, b, results);
}

/// The same number of multiply-adds in a round. Each reads two registers instead of three: adding
/// minus two times a sum to it changes its sign. Reading three registers in an instruction takes
/// longer if they lie in the same bank.
template <class U>
__global__ void __launch_bounds__(threads) turn(unsigned rounds, float* results) {
  const unsigned lane = threadIdx.x % U::group;
  const typename U::Sums minus_two = U::start(-2);
  typename U::Sums sums[turning_chains];
#pragma unroll
  for (unsigned c = 0; c < turning_chains; ++c) sums[c] = U::start(static_cast<float>(c));
#pragma unroll 1
  for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll
    for (unsigned step = 0; step < 2 * unrolled; ++step) {
#pragma unroll
      for (unsigned c = 0; c < turning_chains; ++c) U::turn(sums[c], minus_two);
    }
  }
  store_total<U>(sums, U::load_a(SmallElements{1}, 0, lane), U::load_b(SmallElements{}, 0, lane),
                 results);
}

/// One group computes the product of real elements with the inner dimension `inner`.
template <class U>
__global__ void multiply_real(RealElements elements, double* c) {
  const unsigned lane = threadIdx.x;
  typename U::Sums sums = U::start(0);
#pragma unroll 1
  for (unsigned k = 0; k < inner; k += U::depth) {
    U::multiply_add(sums, U::load_a(elements, k, lane), U::load_b(elements, k, lane));
  }
  U::each(sums, lane,
          [&](unsigned row, unsigned column, double value) { c[row * columns + column] = value; });
}

template <class U>
Unit unit_of(const char* topic, const char* type, const char* roof, int capability,
             double of_element, double of_sum, const RealElements& elements = {}) {
  return {topic,
          type,
          roof,
          "",
          capability,
          U::group,
          U::depth,
          of_element,
          of_sum,
          elements,
          chains,
          reinterpret_cast<const void*>(repeat<U>),
          [](unsigned blocks, unsigned rounds, float* results, cudaStream_t stream) {
            repeat<U><<<blocks, threads, 0, stream>>>(rounds, results);
            check_launch("repeat");
          },
          [](const RealElements& real, double* c, cudaStream_t stream) {
            multiply_real<U><<<1, U::group, 0, stream>>>(real, c);
            check_launch("multiply_real");
          }};
}

/// The same unit with two registers for each multiply-add.
template <class U>
Unit turning_unit_of(const char* topic, const char* type, const char* roof, int capability,
                     double of_element, double of_sum) {
  Unit unit = unit_of<U>(topic, type, roof, capability, of_element, of_sum);
  unit.operands = "two registers";
  unit.chains = turning_chains;
  unit.kernel = reinterpret_cast<const void*>(turn<U>);
  unit.repeat = [](unsigned blocks, unsigned rounds, float* results, cudaStream_t stream) {
    turn<U><<<blocks, threads, 0, stream>>>(rounds, results);
    check_launch("turn");
  };
  return unit;
}

/// Each total is that of the first values of the sums and of one product for each.
bool are_small_products(const std::vector<float>& totals, unsigned depth,
                        unsigned chains_of_group) {
  constexpr SmallElements small;
  for (std::size_t i = 0; i < totals.size(); ++i) {
    const auto row = static_cast<unsigned>(i % outputs / columns);
    const auto column = static_cast<unsigned>(i % columns);
    float product = 0;
    for (unsigned k = 0; k < depth; ++k) product += small.a(row, k) * small.b(k, column);
    const auto sums = static_cast<float>(chains_of_group);
    if (totals[i] != sums * product + sums * (sums - 1) / 2) return false;
  }
  return true;
}

}  // namespace

std::string type_of(const Unit& unit) {
  const std::string type = unit.type, operands = unit.operands;
  return operands.empty() ? type : type + ", " + operands;
}

std::string name_of(const Unit& unit) {
  return formatted("{}, {}", std::string(unit.topic), type_of(unit));
}

std::string share_of_theoretical_peak(const Gpu& gpu, std::string_view roof, double rate) {
  int clock = 0;  // kHz
  check(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, current_gpu()),
        "cudaDeviceGetAttribute");
  const cudaDeviceProp& properties = gpu.properties();
  const double peak = theoretical_peak(roof, 10 * properties.major + properties.minor,
                                       properties.multiProcessorCount, clock);
  if (!(peak > 0)) return "";
  return formatted("{:.2f} of the theoretical peak of {:.0f} Gop/s at {:.2f} GHz", rate / peak,
                   peak, clock / 1e6);
}

std::vector<Unit> all_units() {
  // The sums of tensor cores are truncated, and those of fp8 have fewer digits on some GPUs.
  constexpr double of_tensor = 0x1p-22, of_fp8 = 0x1p-12, of_byte = 0x1p-6;
  using Halves = Pairs<__half, __half2>;
  using Bfloats = Pairs<__nv_bfloat16, __nv_bfloat162>;
  constexpr const char *cores = "CUDA cores", *tensor = "tensor cores";
  constexpr RealElements bytes{127, 127}, shorts{32767, 127};
  std::vector<Unit> all = {
      unit_of<Single<float>>(cores, "fp32", "fp32", 0, 0, 0x1p-24),
      turning_unit_of<Single<float>>(cores, "fp32", "fp32", 0, 0, 0x1p-24),
      unit_of<Single<double>>(cores, "fp64", "fp64", 0, 0, 0x1p-53),
      turning_unit_of<Single<double>>(cores, "fp64", "fp64", 0, 0, 0x1p-53),
      unit_of<Halves>(cores, "fp16 pairs", "fp16 pairs", 0, 0x1p-11, 0x1p-11),
      turning_unit_of<Halves>(cores, "fp16 pairs", "fp16 pairs", 0, 0x1p-11, 0x1p-11),
      unit_of<Bfloats>(cores, "bf16 pairs", "bf16 pairs", 80, 0x1p-8, 0x1p-8),
      turning_unit_of<Bfloats>(cores, "bf16 pairs", "bf16 pairs", 80, 0x1p-8, 0x1p-8),
      unit_of<FourBytes>(cores, "dp4a", "dp4a", 0, of_byte, 0, bytes),
      unit_of<TwoShorts>(cores, "dp2a", "dp2a", 0, of_byte, 0, shorts),
      unit_of<TensorDoubles>(tensor, "fp64", "tensor fp64", 80, 0, 0x1p-53),
      unit_of<Tensor<float, float>>(tensor, "tf32", "tensor tf32", 80, 0x1p-10, of_tensor),
      unit_of<Tensor<__half, float>>(tensor, "fp16", "tensor fp16", 80, 0x1p-11, of_tensor),
      unit_of<TensorHalves>(tensor, "fp16, fp16 sums", "tensor fp16, fp16 sums", 80, 0x1p-11,
                            0x1p-10),
      unit_of<Tensor<__nv_bfloat16, float>>(tensor, "bf16", "tensor bf16", 80, 0x1p-8, of_tensor),
      unit_of<Tensor<std::int8_t, int>>(tensor, "int8", "tensor int8", 80, of_byte, 0, bytes)};
  if constexpr (ladders::has_fp8_mma) {
    all.push_back(unit_of<Tensor<__nv_fp8_e4m3, float>>(tensor, "fp8 e4m3", "tensor fp8 e4m3", 89,
                                                        0x1p-4, of_fp8));
    all.push_back(unit_of<Tensor<__nv_fp8_e5m2, float>>(tensor, "fp8 e5m2", "tensor fp8 e5m2", 89,
                                                        0x1p-3, of_fp8));
  }
  return all;
}

bool has(const Gpu& gpu, const Unit& unit) {
  return 10 * gpu.properties().major + gpu.properties().minor >= unit.capability;
}

bool converts(const Gpu& gpu, const Unit& unit) {
  return gpu.properties().major == 9 && std::string_view(unit.type).starts_with("fp8");
}

unsigned resident_blocks(const Gpu& gpu, const void* kernel, unsigned threads_of_block) {
  int blocks = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel,
                                                      static_cast<int>(threads_of_block), 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return static_cast<unsigned>(blocks * gpu.properties().multiProcessorCount);
}

UnitRate rate_of(Bench& bench, Gpu& gpu, const Unit& unit) {
  const unsigned blocks = resident_blocks(gpu, unit.kernel, threads);
  const unsigned groups = blocks * threads / unit.group;
  const DeviceArray<float> results(std::uint64_t{groups} * outputs);
  const auto launch = [&] { unit.repeat(blocks, usual_rounds, results.data(), gpu.stream()); };
  launch();
  bench.verify(are_small_products(results.read(), unit.depth, unit.chains), name_of(unit));
  const double products = (2.0 * unrolled * usual_rounds + 1) * unit.chains * groups;
  const double operations = 2.0 * outputs * unit.depth * products;
  const Timing timing = gpu.time(launch);
  return {timing.rate(operations),
          {operations, 1.0 * results.bytes(), unit.roof},
          timing.seconds.value};
}

}  // namespace shardstream::experiments::instructions
