// The rung of `matmul` that a user's own kernel is.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <array>
#include <cstdint>
#include <limits>
#include <string>

#include "experiments/ladders/matmul.hpp"
#include "experiments/ladders/own_rung.hpp"

namespace shardstream::experiments::ladders {

/// A case that the own kernel computes after all other rungs.
struct OwnCase {
  Ladder::Mark mark;  ///< behind the rung with which it is compared
  unsigned m, n, k;
  float alpha, beta;
};

/// Counts the elements of `c` that differ from `right`, and finds the first one. NaN differs.
__global__ inline void find_differences(const float* c, const float* right, std::uint64_t count,
                                        unsigned long long* found, unsigned long long* first) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x;
  if (i >= count || c[i] == right[i]) return;
  atomicAdd(found, 1ULL);
  atomicMin(first, static_cast<unsigned long long>(i));
}

/// Says where `c` is wrong: it is compared with the product of a rung that has passed its check.
inline std::string differences_of(const Product<float>& p, const DeviceArray<float>& c,
                                  cudaStream_t stream) {
  constexpr unsigned threads = 256;
  const DeviceArray<float> right(c.size());
  fill_matrix(right, first_of_c, stream);
  core_kernels().front().launch({p.a, p.b, right.data(), p.m, p.n, p.k, p.alpha, p.beta}, stream);
  const DeviceArray<unsigned long long> found(1), first(1);
  found.clear(stream);
  check(cudaMemsetAsync(first.data(), 0xff, first.bytes(), stream), "cudaMemsetAsync");
  find_differences<<<blocks_for(c.size(), threads), threads, 0, stream>>>(
      c.data(), right.data(), c.size(), found.data(), first.data());
  check_launch("find_differences");
  const std::uint64_t count = found.read()[0], at = first.read()[0];
  if (count == 0) return "it has changed A or B";
  return formatted(
      "{} of {} elements are wrong for m = {}, n = {}, k = {}; the first one, in row {} and column "
      "{}, is {} instead of {}",
      count, c.size(), p.m, p.n, p.k, at / p.n, at % p.n, c.read(at, 1)[0], right.read(at, 1)[0]);
}

/// Enqueues the own kernel.
inline void enqueue_own(const OwnRung& own, Product<float> p, cudaStream_t stream) {
  const dim3 grid(blocks_for(p.n, own["tile_x"]), blocks_for(p.m, own["tile_y"]));
  const dim3 block(own["block_x"], own["block_y"]);
  if (own["form"] == 4) {
    std::array<void*, 4> arguments = {&p.a, &p.b, &p.c, &p.n};
    own.launch(grid, block, arguments, stream);
  } else {
    std::array<void*, 8> arguments = {&p.a, &p.b, &p.c, &p.m, &p.n, &p.k, &p.alpha, &p.beta};
    own.launch(grid, block, arguments, stream);
  }
}

/// Measures the own kernel for one case. A kernel of square matrices computes C = A B, and no other
/// case. Throws Unverified if C is wrong.
inline void climb_own_product(Gpu& gpu, Ladder& ladder, const OwnRung& own, const OwnCase& each) {
  const bool is_square = own["form"] == 4;
  if (is_square && (each.m != each.n || each.k != each.n)) return;
  const cudaStream_t stream = gpu.stream();
  const DeviceArray<float> a(std::uint64_t{each.m} * each.k), b(std::uint64_t{each.k} * each.n),
      c(std::uint64_t{each.m} * each.n);
  const Product<float> p{a.data(),
                         b.data(),
                         c.data(),
                         each.m,
                         each.n,
                         each.k,
                         is_square ? 1 : each.alpha,
                         is_square ? 0 : each.beta};
  const auto fill_operands = [&] {
    fill_matrix(a, first_of_a, stream);
    fill_matrix(b, first_of_b, stream);
  };
  fill_operands();
  fill_matrix(c, first_of_c, stream);
  const ProductCheck check(p, BGiven::plainly, stream);
  const Work work{operations_of(p), useful_bytes_of(p), "fp32"};
  const std::string launch = formatted(
      "{} x {} threads, a tile of {} x {}{}", own["block_x"], own["block_y"], own["tile_x"],
      own["tile_y"], std::string(is_square ? "; C = A B, without alpha and beta" : ""));
  ladder.resume(each.mark);
  ladder.climb(
      own.rung(launch, work), [&] { enqueue_own(own, p, stream); },
      [&] {
        if (check.is_right(c)) return true;
        fill_operands();
        throw Unverified(differences_of(p, c, stream));
      });
}

}  // namespace shardstream::experiments::ladders
#endif  // SHARDSTREAM_HAS_CUDA
