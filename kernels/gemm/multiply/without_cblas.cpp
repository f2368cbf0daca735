#include <stdexcept>

#include "kernels/gemm/multiply/cblas.hpp"

namespace shardstream::gemm::cblas {
namespace {

[[noreturn]] void refuse() {
  throw std::runtime_error(
      "CPUs cannot multiply matrices in this build (OpenBLAS was not found when it was "
      "configured): install libopenblas-dev and build again, or use GPUs");
}

}  // namespace

bool exists() {
  return false;
}

Description describe() {
  refuse();
}

void set_environment() {}

std::string prepare() {
  refuse();
}

void multiply(const Tile&, const float*, std::uint64_t, const float*, std::uint64_t, float*, bool) {
  refuse();
}

void multiply(const Tile&, const double*, std::uint64_t, const double*, std::uint64_t, double*,
              bool) {
  refuse();
}

}  // namespace shardstream::gemm::cblas
