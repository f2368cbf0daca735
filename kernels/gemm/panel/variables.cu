#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/panel/element.cuh"
#include "kernels/gemm/panel/rounding.hpp"

namespace shardstream::gemm::cuda {
namespace {

constexpr unsigned warp = 32, lanes = 32, threads = warp * lanes;
constexpr unsigned of_variable = 256;  // threads of a block with one variable per thread

unsigned blocks_of(std::uint64_t items, unsigned items_a_block) {
  return static_cast<unsigned>((items + items_a_block - 1) / items_a_block);
}

struct Moment {
  double sum = 0, squares = 0;

  __device__ void take(double x, double factor) {
    sum += x * factor;
    squares += x * x;
  }
  __device__ void add(const Moment& other) {
    sum += other.sum;
    squares += other.squares;
  }
};

/// Lane i of 32 adds samples i, i + 32, ... of one sum, in that order. `factor`: of a sample.
template <class Sample, class Factor>
__device__ Moment sum_of_lane(unsigned lane, std::uint64_t samples, Sample&& sample,
                              Factor&& factor) {
  constexpr unsigned each = samples_a_sum / lanes;
  constexpr unsigned flight = 8;  // loads of a thread before it uses the first
  Moment mine;
  for (unsigned i = 0; i < each; i += flight) {
    decltype(sample(0)) x[flight];
#pragma unroll
    for (unsigned j = 0; j < flight; ++j) {
      const std::uint64_t s = lane + (i + j) * lanes;
      x[j] = s < samples ? sample(s) : decltype(sample(0)){};
    }
#pragma unroll
    for (unsigned j = 0; j < flight; ++j) {
      const std::uint64_t s = lane + (i + j) * lanes;
      mine.take(value_of(x[j]), s < samples ? factor(s) : 1.0);
    }
  }
  return mine;
}

/// Block (x, y) has 32 variables and the samples of sum y. Neighbouring threads of a warp read
/// neighbouring elements: of 32 columns, or of one row. Then lane i adds lane i + 16, i + 8, ...,
/// i + 1.
template <Side Of, bool Weighted, class T>
__global__ void __launch_bounds__(threads) sum_variables(VariableSumsArgs args) {
  constexpr bool rows = Of == Side::a;
  __shared__ Moment lane_sums[threads];
  const unsigned lane = rows ? threadIdx.x % warp : threadIdx.x / warp;
  const unsigned of_block = rows ? threadIdx.x / warp : threadIdx.x % warp;
  const std::uint64_t variable = std::uint64_t{blockIdx.x} * warp + of_block;
  const std::uint64_t first = std::uint64_t{blockIdx.y} * samples_a_sum;
  const T* const panel = static_cast<const T*>(args.panel);
  Moment* const sums = lane_sums + of_block;  // of one variable, with a pitch of one warp
  if (variable < args.variables) {
    sums[lane * warp] = sum_of_lane(
        lane, args.depth - first,
        [&](std::uint64_t s) {
          return rows ? panel[variable * args.ld + first + s]
                      : panel[(first + s) * args.ld + variable];
        },
        [&](std::uint64_t s) { return Weighted ? args.factors[first + s] : 1.0; });
  }
  for (unsigned half = lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half && variable < args.variables) sums[lane * warp].add(sums[(lane + half) * warp]);
  }
  if (lane != 0 || variable >= args.variables) return;
  double* const to = args.scratch + blockIdx.y * 2 * args.variables + variable;
  to[0] = sums[0].sum;
  to[args.variables] = sums[0].squares;
}

__global__ void __launch_bounds__(of_variable) join_sums(VariableSumsArgs args, unsigned parts) {
  const std::uint64_t v = std::uint64_t{blockIdx.x} * of_variable + threadIdx.x;
  if (v >= args.variables) return;
  Moment all;
  if (!args.first) all = {args.sums[v], args.squares[v]};
  for (unsigned part = 0; part < parts; ++part) {
    const double* const from = args.scratch + part * 2 * args.variables + v;
    all.add({from[0], from[args.variables]});
  }
  args.sums[v] = all.sum;
  args.squares[v] = all.squares;
}

__global__ void __launch_bounds__(of_variable)
    settle_variables(SettleArgs args, ElementRange range) {
  const std::uint64_t v = std::uint64_t{blockIdx.x} * of_variable + threadIdx.x;
  const bool inside = v < args.variables;
  const bool lost = inside && args.lost != nullptr && args.lost[v] != 0;
  const bool settled =
      !inside || detail::settle(args, range, v, lost, [](double x) { return sqrt(x); });
  const unsigned unsettled = __popc(__ballot_sync(0xffffffffu, !settled));
  if (threadIdx.x % warp == 0 && unsettled > 0 && args.unsettled != nullptr) {
    atomicAdd(reinterpret_cast<unsigned long long*>(args.unsettled), unsettled);
  }
}

template <class T>
__global__ void __launch_bounds__(of_variable)
    covariance_elements(CovarianceArgs args, std::uint64_t blocks_a_row) {
  const std::uint64_t r = blockIdx.x / blocks_a_row;
  const std::uint64_t c = blockIdx.x % blocks_a_row * of_variable + threadIdx.x;
  if (c >= args.columns) return;
  T* const element = static_cast<T*>(args.tile) + r * args.ld + c;
  const auto product = static_cast<double>(*element);
  const double off =
      args.row_sums == nullptr ? 0 : args.row_sums[r] / args.samples * args.column_sums[c];
  const bool counts =
      args.row_weights == nullptr || (args.row_weights[r] != 0 && args.column_weights[c] != 0);
  const auto value = static_cast<T>(
      counts ? (product - off) * args.alpha * args.row_factors[r] * args.column_factors[c] : 0);
  *element = args.correlates ? correlation(value, args.diagonal && r == c) : value;
}

/// The maximum over all factors, by one warp. NaNs are ignored.
__device__ double largest(const double* factors, std::uint64_t count) {
  double max = 0;
  for (std::uint64_t i = threadIdx.x; i < count; i += warp) max = fmax(max, factors[i]);
#pragma unroll
  for (unsigned distance = warp / 2; distance > 0; distance /= 2) {
    max = fmax(max, __shfl_xor_sync(0xffffffffu, max, distance));
  }
  return max;
}

__global__ void __launch_bounds__(warp) scale_threshold(CovarianceArgs args) {
  const double max =
      largest(args.row_factors, args.rows) * largest(args.column_factors, args.columns);
  if (threadIdx.x == 0) *args.threshold *= max;
}

template <Side Of, class T>
void sum_side(const VariableSumsArgs& args, dim3 blocks, CudaStream stream) {
  if (args.factors != nullptr) {
    sum_variables<Of, true, T><<<blocks, threads, 0, stream>>>(args);
  } else {
    sum_variables<Of, false, T><<<blocks, threads, 0, stream>>>(args);
  }
}

}  // namespace

void variable_sums(const VariableSumsArgs& args, CudaStream stream) {
  if (args.variables == 0) return;
  const dim3 blocks(blocks_of(args.variables, warp), blocks_of(args.depth, samples_a_sum));
  if (args.depth > 0) {
    with_format(traits_of(args.precision).panel, [&](auto format) {
      using T = Element<decltype(format)::value>;
      args.side == Side::a ? sum_side<Side::a, T>(args, blocks, stream)
                           : sum_side<Side::b, T>(args, blocks, stream);
    });
  }
  join_sums<<<blocks_of(args.variables, of_variable), of_variable, 0, stream>>>(args, blocks.y);
}

void settle(const SettleArgs& args, CudaStream stream) {
  if (args.variables == 0) return;
  settle_variables<<<blocks_of(args.variables, of_variable), of_variable, 0, stream>>>(
      args, range_of(args.precision));
}

void covariance(const CovarianceArgs& args, CudaStream stream) {
  if (args.rows == 0 || args.columns == 0) return;
  scale_threshold<<<1, warp, 0, stream>>>(args);
  const std::uint64_t across = blocks_of(args.columns, of_variable);
  with_rounded_type(args.precision, [&](auto of) {
    covariance_elements<typename decltype(of)::type>
        <<<static_cast<unsigned>(args.rows * across), of_variable, 0, stream>>>(args, across);
  });
}

}  // namespace shardstream::gemm::cuda
