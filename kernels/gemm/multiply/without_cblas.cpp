#include <stdexcept>

#include "kernels/gemm/multiply/cblas.hpp"

namespace shardstream::gemm::cblas {
namespace {

[[noreturn]] void reject() {
  throw std::runtime_error(
      "this program cannot multiply matrices on CPUs (OpenBLAS was not found when it was built): "
      "install libopenblas-dev and build it again, or use GPUs");
}

}  // namespace

bool exists() {
  return false;
}

Description describe() {
  reject();
}

void set_environment() {}

std::string prepare() {
  reject();
}

void multiply(const Tile&, const float*, std::uint64_t, const float*, std::uint64_t, float*, bool) {
  reject();
}

void multiply(const Tile&, const double*, std::uint64_t, const double*, std::uint64_t, double*,
              bool) {
  reject();
}

void multiply_transposed(const Tile&, const float*, const float*, float*, bool) {
  reject();
}

void square(std::uint64_t, std::uint64_t, const float*, float*, bool) {
  reject();
}

void square(std::uint64_t, std::uint64_t, const double*, double*, bool) {
  reject();
}

}  // namespace shardstream::gemm::cblas
