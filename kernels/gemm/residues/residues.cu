#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/residues/scales.hpp"

namespace shardstream::gemm::cuda {
namespace {

constexpr unsigned warp = 32, max_warps = 16;
constexpr unsigned width = 4;  // neighbouring elements of a thread, whose residues are one word

/// The threads of a block. Each keeps its elements in registers, 32 doubles or 16 floats, so two
/// blocks fit into a multiprocessor.
template <class T>
constexpr unsigned threads = sizeof(T) == 8 ? 256 : 512;
template <class T>
constexpr unsigned groups = max_residue_k / (threads<T> * width);

/// The combination of the values of all threads of a block, for each of them. `combine` may take
/// its arguments in any order.
template <class T, class Combine>
__device__ T combined(T value, T (&shared)[max_warps], const Combine& combine) {
  for (unsigned offset = warp / 2; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(~0U, value, offset));
  }
  __syncthreads();  // the words of an earlier call have been read
  if (threadIdx.x % warp == 0) shared[threadIdx.x / warp] = value;
  __syncthreads();
  value = shared[0];
  for (unsigned i = 1; i < blockDim.x / warp; ++i) value = combine(value, shared[i]);
  return value;
}

/// An element as an integer, in balanced digits of base 256, one in each byte.
struct Digits {
  std::uint32_t low, high;
};

__device__ Digits digits_of(long long integer) {
  constexpr std::uint64_t middles = 0x0080808080808080;
  const std::uint64_t digits = (static_cast<std::uint64_t>(integer) + middles) ^ middles;
  return {static_cast<std::uint32_t>(digits), static_cast<std::uint32_t>(digits >> 32)};
}

/// A word whose lowest byte is the residue. Sums are below 2^18. 1.5 * 2^23 as a float and these
/// sums as an integer have the same bits except for the sum itself.
template <bool Wide>
__device__ std::uint32_t residue(const Digits& digits, const Modulus& m) {
  constexpr float magic = 0x1.8p23F;
  int bits =
      __dp4a(static_cast<int>(digits.low), static_cast<int>(m.low_digits), __float_as_int(magic));
  if constexpr (Wide) {
    bits = __dp4a(static_cast<int>(digits.high), static_cast<int>(m.high_digits), bits);
  }
  const float sum = __int_as_float(bits) - magic;
  const float quotient = __fmaf_rn(sum, m.inverse, magic) - magic;
  return __float_as_uint(__fmaf_rn(quotient, -static_cast<float>(m.p), sum) + magic);
}

template <class T>
struct alignas(width * sizeof(T)) Elements {
  T element[width];
};

struct Lines {
  const void* from;
  std::uint64_t ld;
  unsigned k;
  double root, max_norm;  ///< of k, max_scaled_norm()
  std::int8_t* to;        ///< ResiduesArgs
  std::uint64_t pitch;
  std::int32_t* exponents;
  double* error;
};

/// A block converts a line, whose elements stay in registers. Thread i has elements i * width ...
/// of each group. `Wide`: integers have more than four digits.
template <class T, bool Wide>
__global__ void __launch_bounds__(threads<T>, 2)
    convert_lines(const __grid_constant__ Lines lines, const __grid_constant__ Basis basis) {
  __shared__ unsigned long long words[max_warps];
  __shared__ double doubles[max_warps];
  const std::uint64_t line = blockIdx.x;
  const T* const from = static_cast<const T*>(lines.from) + line * lines.ld;
  const auto at = [&](unsigned group) { return (group * blockDim.x + threadIdx.x) * width; };
  Elements<T> x[groups<T>];
#pragma unroll
  for (unsigned g = 0; g < groups<T>; ++g) {
    x[g] = {};
    if (at(g) < lines.k) x[g] = *reinterpret_cast<const Elements<T>*>(from + at(g));
  }
  unsigned long long largest = 0;
#pragma unroll
  for (unsigned g = 0; g < groups<T>; ++g) {
#pragma unroll
    for (unsigned i = 0; i < width; ++i) {
      const unsigned long long bits = detail::magnitude_bits(static_cast<double>(x[g].element[i]));
      largest = largest > bits ? largest : bits;
    }
  }
  largest = combined(largest, words, [](auto a, auto b) { return a > b ? a : b; });
  const bool converts = largest > 0 && largest < detail::infinite_bits;
  detail::LineScale scale{0, 0};
  if (converts) {
    const detail::Power power(detail::norm_bits - detail::exponent_above(largest));
    unsigned long long squares = 0;
#pragma unroll
    for (unsigned g = 0; g < groups<T>; ++g) {
      if (at(g) >= lines.k) continue;
#pragma unroll
      for (unsigned i = 0; i < width; ++i) {
        squares += detail::norm_square(static_cast<double>(x[g].element[i]), power);
      }
    }
    squares = combined(squares, words, [](auto a, auto b) { return a + b; });
    scale =
        detail::line_scale(largest, sqrt(static_cast<double>(squares)), lines.root, lines.max_norm);
  }
  const detail::Power power(scale.exponent);
  Digits digits[groups<T>][width];
  double difference = 0;
#pragma unroll
  for (unsigned g = 0; g < groups<T>; ++g) {
#pragma unroll
    for (unsigned i = 0; i < width; ++i) {
      const double scaled =
          converts ? detail::scaled(static_cast<double>(x[g].element[i]), power) : 0.0;
      const long long integer = __double2ll_rn(scaled);
      digits[g][i] = digits_of(integer);
      difference = fmax(difference, fabs(scaled - static_cast<double>(integer)));
    }
  }
  for (unsigned t = 0; t < basis.count; ++t) {
    const Modulus& m = basis.moduli[t];
    std::int8_t* const to = lines.to + t * lines.pitch + line * lines.k;
#pragma unroll
    for (unsigned g = 0; g < groups<T>; ++g) {
      if (at(g) >= lines.k) continue;
      const std::uint32_t first =
          __byte_perm(residue<Wide>(digits[g][0], m), residue<Wide>(digits[g][1], m), 0x0040);
      const std::uint32_t second =
          __byte_perm(residue<Wide>(digits[g][2], m), residue<Wide>(digits[g][3], m), 0x0040);
      *reinterpret_cast<std::uint32_t*>(to + at(g)) = __byte_perm(first, second, 0x5410);
    }
  }
  if (lines.error != nullptr) {
    difference = combined(difference, doubles, [](double a, double b) { return fmax(a, b); });
  }
  if (threadIdx.x != 0) return;
  if (converts || largest == 0) {
    lines.exponents[line] = scale.exponent;
  } else {
    lines.exponents[line] = largest == detail::infinite_bits ? has_infinity : has_nan;
  }
  // Positive doubles have the order of their bits.
  const double error = scale.error * difference;
  if (lines.error != nullptr && error > *static_cast<volatile double*>(lines.error)) {
    atomicMax(reinterpret_cast<unsigned long long*>(lines.error),
              static_cast<unsigned long long>(__double_as_longlong(error)));
  }
}

template <class T>
void launch(const Lines& lines, std::uint64_t count, const Basis& basis, CudaStream stream) {
  constexpr unsigned four_digits = 7;  // moduli up to which integers have at most four digits
  const unsigned of_line = (lines.k / width + warp - 1) / warp * warp;
  const unsigned each = std::min(threads<T>, of_line);
  const auto blocks = static_cast<unsigned>(count);
  if (basis.count > four_digits) {
    convert_lines<T, true><<<blocks, each, 0, stream>>>(lines, basis);
  } else {
    convert_lines<T, false><<<blocks, each, 0, stream>>>(lines, basis);
  }
}

/// Columns of B are transposed, some at a time, so that their elements are contiguous.
template <class T>
void convert(const ResiduesArgs& args, CudaStream stream) {
  const Basis& basis = basis_with(args.moduli);
  const bool rows = args.side == Side::a;
  const std::uint64_t at_once = rows ? args.lines : residue_scratch_lines;
  for (std::uint64_t first = 0; first < args.lines; first += at_once) {
    const std::uint64_t count = std::min(at_once, args.lines - first);
    if (!rows) {
      transpose({static_cast<const T*>(args.panel) + first, args.k, count, args.ld, args.scratch,
                 args.k, sizeof(T)},
                stream);
    }
    launch<T>({.from = rows ? args.panel : args.scratch,
               .ld = rows ? args.ld : args.k,
               .k = static_cast<unsigned>(args.k),
               .root = std::sqrt(static_cast<double>(args.k)),
               .max_norm = max_scaled_norm(basis, args.k),
               .to = args.to + first * args.k,
               .pitch = args.pitch,
               .exponents = args.exponents + first,
               .error = args.error},
              count, basis, stream);
  }
}

}  // namespace

void residues(const ResiduesArgs& args, CudaStream stream) {
  with_host_panel_type(args.precision,
                       [&](auto of) { convert<typename decltype(of)::type>(args, stream); });
}

}  // namespace shardstream::gemm::cuda
