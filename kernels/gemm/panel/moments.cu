
#include "kernels/gemm/cuda.hpp"

namespace shardstream::gemm::cuda {
namespace {

constexpr unsigned threads = 1024, warp = 32;
constexpr unsigned flight = 8;  // loads of a thread before it uses the first

struct Moment {
  double sum, squares;

  __device__ void take(double x) {
    sum += x;
    squares += x * x;
  }
  __device__ void add(const Moment& other) {
    sum += other.sum;
    squares += other.squares;
  }
};

/// Lane y of `lanes` takes samples y, y + lanes, ..., in that order.
template <class Sample>
__device__ Moment sum_of_lane(std::uint64_t samples, unsigned lane, unsigned lanes, double shift,
                              Sample&& sample) {
  Moment mine{0, 0};
  std::uint64_t s = lane;
  for (; s + (flight - 1) * lanes < samples; s += flight * lanes) {
    decltype(sample(s)) x[flight];
#pragma unroll
    for (unsigned i = 0; i < flight; ++i) x[i] = sample(s + i * lanes);
#pragma unroll
    for (unsigned i = 0; i < flight; ++i) mine.take(static_cast<double>(x[i]) - shift);
  }
  for (; s < samples; s += lanes) mine.take(static_cast<double>(sample(s)) - shift);
  return mine;
}

__device__ void store(const MomentsArgs& args, std::uint64_t variable, Moment all) {
  if (!args.first) all.add({args.sums[variable], args.squares[variable]});
  args.sums[variable] = all.sum;
  args.squares[variable] = all.squares;
}

/// `across` variables, a power of two up to a warp, a block of threads; threads / across lanes
/// share the samples of each. Neighbouring threads read neighbouring elements: of one variable
/// after another in a row of samples, of one sample after another in a row of a variable, which a
/// block has to itself. Then lane i takes lane i + width for width = lanes / 2, ..., 1.
template <bool Rows, class T>
__global__ void __launch_bounds__(threads) sum_moments(MomentsArgs args, unsigned across) {
  __shared__ Moment lane_sums[threads];
  const unsigned lanes = threads / across, lane = threadIdx.x / across;
  const std::uint64_t variable = std::uint64_t{blockIdx.x} * across + threadIdx.x % across;
  const T* const raw = static_cast<const T*>(args.raw);
  Moment mine{0, 0};
  if (variable < args.variables) {
    mine = sum_of_lane(args.samples, lane, lanes, args.shift[variable], [&](std::uint64_t s) {
      return Rows ? raw[variable * args.ld + s] : raw[s * args.ld + variable];
    });
  }
  lane_sums[threadIdx.x] = mine;
  for (unsigned width = lanes / 2; width > 0; width /= 2) {
    __syncthreads();
    if (lane < width) lane_sums[threadIdx.x].add(lane_sums[threadIdx.x + width * across]);
  }
  if (lane == 0 && variable < args.variables) store(args, variable, lane_sums[threadIdx.x]);
}

template <class T>
void moments_of(const MomentsArgs& args, CudaStream stream) {
  unsigned across = 1;
  while (!args.variables_are_rows && across < warp && across < args.variables) across *= 2;
  const auto blocks = static_cast<unsigned>((args.variables + across - 1) / across);
  if (args.variables_are_rows) {
    sum_moments<true, T><<<blocks, threads, 0, stream>>>(args, across);
  } else {
    sum_moments<false, T><<<blocks, threads, 0, stream>>>(args, across);
  }
}

}  // namespace

void moments(const MomentsArgs& args, CudaStream stream) {
  if (args.variables == 0) return;
  with_element_type(args.from,
                    [&](auto tag) { moments_of<typename decltype(tag)::type>(args, stream); });
}

}  // namespace shardstream::gemm::cuda
