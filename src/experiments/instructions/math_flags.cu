// Functions whose code depends on flags of nvcc. This source is compiled once for each set of flags
// (../CMakeLists.txt), which SHARDSTREAM_MATH_FLAGS names.
#include "experiments/instructions/math_kernels.cuh"

namespace shardstream::experiments::instructions {
namespace {

constexpr Flags set = Flags::SHARDSTREAM_MATH_FLAGS;
constexpr bool is_default = set == Flags::defaults, is_fast = set == Flags::fast_math;
constexpr bool has_ftz = is_default || is_fast || set == Flags::ftz;

__device__ float quotient(float x, float y) {
  return y / x;
}
__device__ float reciprocal(float x) {
  return 1 / x;
}
__device__ float root(float x) {
  return sqrtf(x);
}
__device__ float reciprocal_root(float x) {
  return 1 / sqrtf(x);
}
__device__ float sine(float x) {
  return sinf(x);
}
__device__ float cosine(float x) {
  return cosf(x);
}
__device__ float tangent(float x) {
  return tanf(x);
}
__device__ float exponential(float x) {
  return expf(x);
}
__device__ float exponential_2(float x) {
  return exp2f(x);
}
__device__ float exponential_10(float x) {
  return exp10f(x);
}
__device__ float logarithm(float x) {
  return logf(x);
}
__device__ float logarithm_2(float x) {
  return log2f(x);
}
__device__ float logarithm_10(float x) {
  return log10f(x);
}
__device__ float power(float x, float y) {
  return powf(x, y);
}

}  // namespace

template <>
std::vector<FlaggedFunction> flagged_functions<set>() {
  std::vector<FlaggedFunction> all;
  if constexpr (has_ftz || set == Flags::prec_div) {
    all.push_back({Flagged::quotient, compiled<quotient>("y / x")});
    all.push_back({Flagged::reciprocal, compiled<reciprocal>("1 / x")});
    all.push_back({Flagged::reciprocal_root, compiled<reciprocal_root>("1 / sqrtf(x)")});
  }
  if constexpr (set == Flags::prec_sqrt) {
    all.push_back({Flagged::reciprocal_root, compiled<reciprocal_root>("1 / sqrtf(x)")});
  }
  if constexpr (has_ftz || set == Flags::prec_sqrt) {
    all.push_back({Flagged::root, compiled<root>("sqrtf(x)")});
  }
  if constexpr (has_ftz) {
    all.push_back({Flagged::sine, compiled<sine>("sinf(x)")});
    all.push_back({Flagged::cosine, compiled<cosine>("cosf(x)")});
    all.push_back({Flagged::tangent, compiled<tangent>("tanf(x)")});
    all.push_back({Flagged::exponential, compiled<exponential>("expf(x)")});
    all.push_back({Flagged::exponential_2, compiled<exponential_2>("exp2f(x)")});
    all.push_back({Flagged::exponential_10, compiled<exponential_10>("exp10f(x)")});
    all.push_back({Flagged::logarithm, compiled<logarithm>("logf(x)")});
    all.push_back({Flagged::logarithm_2, compiled<logarithm_2>("log2f(x)")});
    all.push_back({Flagged::logarithm_10, compiled<logarithm_10>("log10f(x)")});
    all.push_back({Flagged::power, compiled<power>("powf(x, y)")});
  }
  return all;
}

}  // namespace shardstream::experiments::instructions
