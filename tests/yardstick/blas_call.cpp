// The rate of one call of the CBLAS for N x N x N on all CPUs that this process was granted, with
// uniform random data in [0, 1): the best of three calls, or of as many as begin within three
// seconds.
//
//   blas_call N
#include <cblas.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "kernels/data/generate.hpp"

namespace {

using namespace shardstream;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int granted_cpus() {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) {
    throw std::system_error(errno, std::generic_category(), "sched_getaffinity");
  }
  return CPU_COUNT(&cpus);
}

void multiply(blasint n, const float* a, const float* b, float* c) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, b, n, 0, c, n);
}
void multiply(blasint n, const double* a, const double* b, double* c) {
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, b, n, 0, c, n);
}

template <class T>
void measure(const char* name, ElementType type, blasint n) {
  const auto edge = static_cast<std::uint64_t>(n);
  std::vector<T> a(edge * edge), b(edge * edge), c(edge * edge);
  generate(Generator::uniform, type, 1, 0, edge * edge,
           std::as_writable_bytes(std::span(a)).data());
  generate(Generator::uniform, type, 2, 0, edge * edge,
           std::as_writable_bytes(std::span(b)).data());
  const blasint few = std::min<blasint>(n, 512);
  multiply(few, a.data(), b.data(), c.data());  // starts the library's threads
  double best = 0;
  const auto start = Clock::now();
  for (int i = 0; i < 3 && (i == 0 || seconds_since(start) < 3); ++i) {
    const auto began = Clock::now();
    multiply(n, a.data(), b.data(), c.data());
    const double seconds = seconds_since(began);
    best = i == 0 ? seconds : std::min(best, seconds);
  }
  const auto size = static_cast<double>(n);
  std::printf("%s=%.4g Gflop/s\n", name, 2 * size * size * size / best / 1e9);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string word = argc == 2 ? argv[1] : "";
  blasint n = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), n);
  if (error != std::errc{} || end != word.data() + word.size() || n < 1 || n > 65536) {
    throw std::runtime_error("usage: blas_call N, a size in 1..65536");
  }
  const int threads = granted_cpus();
  openblas_set_num_threads(threads);
  // The library may have been built for fewer.
  std::printf("threads=%d\n", openblas_get_num_threads());
  measure<float>("fp32", ElementType::f32, n);
  measure<double>("fp64", ElementType::f64, n);
} catch (const std::exception& error) {
  std::fprintf(stderr, "blas_call: %s\n", error.what());
  return 1;
}
