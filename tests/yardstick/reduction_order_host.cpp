// What the fixed order of summation costs on CPUs, for other numbers of lanes and leaf sizes than
// the program's: each as a share of a plain read of the same memory.
//
// Built for x86-64-v3, as the program's own copy of this code is where the processor has it.
//
//   reduction_order_host [GiB=4] [THREADS=all]
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "core/parallel.hpp"
#include "kernels/data/generate.hpp"
#include "kernels/reduce/leaf.hpp"

namespace {

using namespace shardstream;
using namespace shardstream::reduce;

struct Data {
  std::byte* bytes;
  std::size_t size;
  unsigned threads;
};

/// Median GB/s of seven passes, `part` of `parts` each on a thread of its own.
double rate(const Data& data, const std::function<void(unsigned part, unsigned parts)>& pass) {
  std::vector<double> seconds;
  for (int i = 0; i < 7; ++i) {
    const auto start = std::chrono::steady_clock::now();
    parallel_for(data.threads, data.threads,
                 [&](std::uint64_t part) { pass(static_cast<unsigned>(part), data.threads); });
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::nth_element(seconds, seconds.begin() + 3);
  return static_cast<double>(data.size) / seconds[3] / 1e9;
}

double plain_read(const Data& data) {
  std::vector<std::uint64_t> sink(data.threads);
  const auto* words = reinterpret_cast<const std::uint64_t*>(data.bytes);
  const std::size_t blocks = data.size / 64;
  const double gb = rate(data, [&](unsigned part, unsigned parts) {
    std::uint64_t x[8] = {};
    for (std::size_t i = blocks * part / parts; i < blocks * (part + 1) / parts; ++i) {
      for (int k = 0; k < 8; ++k) x[k] ^= words[8 * i + k];
    }
    for (const auto word : x) sink[part] ^= word;
  });
  volatile std::uint64_t used = 0;  // so that the reads are not optimised away
  for (const auto word : sink) used = used ^ word;
  return gb;
}

template <class T, unsigned Lanes>
void measure(const Data& data, const char* type, unsigned leaf, Want want, double plain) {
  const std::size_t leaves = data.size / sizeof(T) / leaf;
  const auto* x = reinterpret_cast<const T*>(data.bytes);
  std::vector<PartialOf<T>> partials(leaves);
  const double gb = rate(data, [&](unsigned part, unsigned parts) {
    for (std::size_t i = leaves * part / parts; i < leaves * (part + 1) / parts; ++i) {
      partials[i] = reduce_leaf<T, Lanes>(x + i * leaf, leaf, 0, want);
    }
  });
  std::printf("%-4s %5u lanes, leaf %7u%s%s: %7.1f GB/s, %.2f of a plain read\n", type, Lanes, leaf,
              want.extremes ? ", extremes" : "", want.variance ? ", variance" : "", gb, gb / plain);
}

template <unsigned Lanes>
void measure_lanes(const Data& data, double plain) {
  constexpr Want sum{}, extremes{.extremes = true}, variance{.variance = true};
  for (const Want want : {sum, extremes, variance}) {
    measure<float, Lanes>(data, "f32", 1 << 16, want, plain);
    measure<double, Lanes>(data, "f64", 1 << 16, want, plain);
  }
  measure<std::int32_t, Lanes>(data, "i32", 1 << 16, sum, plain);
  measure<std::int64_t, Lanes>(data, "i64", 1 << 16, sum, plain);
  if constexpr (Lanes >= 256) {
    measure<std::uint8_t, Lanes>(data, "u8", 1 << 16, sum, plain);
    measure<std::uint8_t, Lanes>(data, "u8", 1 << 16, extremes, plain);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Data data{};
  data.size = static_cast<std::size_t>(argc > 1 ? std::atoi(argv[1]) : 4) << 30;
  data.threads = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2]))
                          : std::max(1U, std::thread::hardware_concurrency());
  void* memory =
      mmap(nullptr, data.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::perror("mmap"), 1;
  madvise(memory, data.size, MADV_HUGEPAGE);
  data.bytes = static_cast<std::byte*>(memory);
  const std::size_t each = data.size / data.threads / 64 * 64;
  parallel_for(data.threads, data.threads, [&](std::uint64_t part) {
    generate(Generator::uniform, ElementType::f32, 1, part * each / 4, each / 4,
             data.bytes + part * each);
  });
  const double plain = plain_read(data);
  std::printf("plain read: %.1f GB/s with %u threads\n", plain, data.threads);
  constexpr Want sum{};
  for (const unsigned leaf : {1U << 14, 1U << 15, 1U << 16, 1U << 17}) {
    measure<float, 512>(data, "f32", leaf, sum, plain);
    measure<double, 512>(data, "f64", leaf, sum, plain);
  }
  measure_lanes<64>(data, plain);
  measure_lanes<256>(data, plain);
  measure_lanes<512>(data, plain);
  measure_lanes<1024>(data, plain);
  measure_lanes<4096>(data, plain);
}
