#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/panel/rounding.hpp"

namespace shardstream::gemm::cuda {
namespace {

constexpr unsigned threads = 256;

unsigned blocks_of(std::uint64_t items) {
  return static_cast<unsigned>((items + threads - 1) / threads);
}

bool on_16_bytes(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

/// Neighbouring elements that a thread moves at once.
template <class T, unsigned Width>
struct alignas(Width * sizeof(T)) Pack {
  T element[Width];
};

/// The blocks of a factor. `pitch` is the distance of their rows in floats.
struct Blocks {
  float *first, *low, *again;
  std::uint64_t pitch;
};

/// One thread per pack of the panel. `packs` is the number of packs in a row.
template <unsigned Width>
__global__ void __launch_bounds__(threads)
    split_packs(SplitArgs args, Blocks to, std::uint64_t packs) {
  const std::uint64_t item = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
  const std::uint64_t row = item / packs, column = item % packs * Width;
  if (row >= args.rows) return;
  using Floats = Pack<float, Width>;
  const auto* const x = static_cast<const float*>(args.panel) + row * args.ld + column;
  const auto in = *reinterpret_cast<const Floats*>(x);
  Floats high, low;
#pragma unroll
  for (unsigned i = 0; i < Width; ++i) {
    high.element[i] = detail::high_part(in.element[i]);
    low.element[i] = detail::low_part(in.element[i], high.element[i]);
  }
  const std::uint64_t at = row * to.pitch + column;
  *reinterpret_cast<Floats*>(to.first + at) = high;
  *reinterpret_cast<Floats*>(to.low + at) = low;
  *reinterpret_cast<Floats*>(to.again + at) = high;
}

template <unsigned Width>
void launch_split(const SplitArgs& args, const Blocks& to, CudaStream stream) {
  const std::uint64_t packs = args.columns / Width;
  split_packs<Width><<<blocks_of(args.rows * packs), threads, 0, stream>>>(args, to, packs);
}

/// One thread per pack. It reads before it writes, so `sum` may be `left` or `right`.
template <class T, unsigned Width>
__global__ void __launch_bounds__(threads)
    add_packs(const T* left, const T* right, T* sum, std::uint64_t packs) {
  const std::uint64_t item = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
  if (item >= packs) return;
  using Elements = Pack<T, Width>;
  auto total = reinterpret_cast<const Elements*>(left)[item];
  const auto other = reinterpret_cast<const Elements*>(right)[item];
#pragma unroll
  for (unsigned i = 0; i < Width; ++i) total.element[i] += other.element[i];
  reinterpret_cast<Elements*>(sum)[item] = total;
}

template <class T, unsigned Width>
void launch_add(const T* left, const T* right, T* sum, std::uint64_t count, CudaStream stream) {
  const std::uint64_t packs = count / Width;
  if (packs == 0) return;
  add_packs<T, Width><<<blocks_of(packs), threads, 0, stream>>>(left, right, sum, packs);
}

}  // namespace

void split(const SplitArgs& args, CudaStream stream) {
  if (args.rows == 0 || args.columns == 0) return;
  auto* const factor = static_cast<float*>(args.factor);
  const std::uint64_t offset = args.side == Side::b ? args.rows * args.columns : args.columns;
  const Blocks to{.first = factor + (args.side == Side::b ? 0 : offset),
                  .low = factor + (args.side == Side::b ? offset : 0),
                  .again = factor + 2 * offset,
                  .pitch = args.side == Side::b ? args.columns : 3 * args.columns};
  const bool fours = on_16_bytes(args.panel) && on_16_bytes(args.factor) && args.ld % 4 == 0 &&
                     args.columns % 4 == 0;
  if (fours) {
    launch_split<4>(args, to, stream);
  } else {
    launch_split<1>(args, to, stream);
  }
}

void add(const AddArgs& args, CudaStream stream) {
  const bool aligned = on_16_bytes(args.left) && on_16_bytes(args.right) && on_16_bytes(args.sum);
  with_accumulator_type(args.precision, [&](auto of) {
    using T = typename decltype(of)::type;
    constexpr unsigned width = 16 / sizeof(T);
    const auto* const left = static_cast<const T*>(args.left);
    const auto* const right = static_cast<const T*>(args.right);
    auto* const sum = static_cast<T*>(args.sum);
    const std::uint64_t in_packs = aligned ? args.count / width * width : 0;
    launch_add<T, width>(left, right, sum, in_packs, stream);
    launch_add<T, 1>(left + in_packs, right + in_packs, sum + in_packs, args.count - in_packs,
                     stream);
  });
}

}  // namespace shardstream::gemm::cuda
