#include "kernels/gemm/panel/moments.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/gemm/cuda.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::gemm {
namespace {

// Spelled out because compilers make no vectors of sums of doubles, whose order counts.
constexpr unsigned width = 4;
using Doubles [[gnu::vector_size(width * sizeof(double))]] = double;

template <class T>
[[gnu::always_inline]] inline void load(const T* from, Doubles& to) {
  using Four [[gnu::vector_size(width * sizeof(T))]] = T;
  Four four;
  std::memcpy(&four, from, sizeof(four));
  to = __builtin_convertvector(four, Doubles);
}

struct Moment {
  double sum = 0, squares = 0;
};

/// Sample i goes to lane i mod 16; then lane i takes lane i + 8, i + 4, ....
template <class T>
[[gnu::always_inline]] inline Moment moment_of(const T* x, std::uint64_t samples, double shift) {
  constexpr unsigned packs = 4, lanes = packs * width;
  Doubles sums[packs] = {}, squares[packs] = {};
  std::uint64_t i = 0;
  for (; i + lanes <= samples; i += lanes) {
    for (unsigned pack = 0; pack < packs; ++pack) {
      Doubles d;
      load(x + i + pack * width, d);
      d -= shift;
      sums[pack] += d;
      squares[pack] += d * d;
    }
  }
  for (; i < samples; ++i) {
    const double d = static_cast<double>(x[i]) - shift;
    const auto lane = static_cast<unsigned>(i % lanes);
    sums[lane / width][lane % width] += d;
    squares[lane / width][lane % width] += d * d;
  }
  const auto folded = [](const Doubles(&pack)[packs]) {
    const Doubles four = (pack[0] + pack[2]) + (pack[1] + pack[3]);
    return (four[0] + four[2]) + (four[1] + four[3]);
  };
  return {folded(sums), folded(squares)};
}

/// One sample of some variables.
template <class T>
[[gnu::always_inline]] inline void add_sample(const T* x, std::uint64_t variables,
                                              const double* shift, double* sums, double* squares) {
  std::uint64_t v = 0;
  for (; v + width <= variables; v += width) {
    Doubles from, sum, square;
    std::memcpy(&from, shift + v, sizeof(from));
    std::memcpy(&sum, sums + v, sizeof(sum));
    std::memcpy(&square, squares + v, sizeof(square));
    Doubles d;
    load(x + v, d);
    d -= from;
    sum += d;
    square += d * d;
    std::memcpy(sums + v, &sum, sizeof(sum));
    std::memcpy(squares + v, &square, sizeof(square));
  }
  for (; v < variables; ++v) {
    const double d = static_cast<double>(x[v]) - shift[v];
    sums[v] += d;
    squares[v] += d * d;
  }
}

/// Variables [begin, end). Where these are columns, a few hundred of them pass at a time, so that
/// their sums stay in the first-level cache.
template <class T>
SHARDSTREAM_VECTOR_CLONES void add_moments(const MomentsArgs& args, Rows variables) {
  const T* const raw = static_cast<const T*>(args.raw);
  if (args.first) {
    std::fill(args.sums + variables.begin, args.sums + variables.end, 0.0);
    std::fill(args.squares + variables.begin, args.squares + variables.end, 0.0);
  }
  if (args.variables_are_rows) {
    for (std::uint64_t v = variables.begin; v < variables.end; ++v) {
      const Moment some = moment_of(raw + v * args.ld, args.samples, args.shift[v]);
      args.sums[v] += some.sum;
      args.squares[v] += some.squares;
    }
    return;
  }
  constexpr std::uint64_t together = 512;
  for (std::uint64_t v = variables.begin; v < variables.end; v += together) {
    for (std::uint64_t s = 0; s < args.samples; ++s) {
      add_sample(raw + s * args.ld + v, std::min(together, variables.end - v), args.shift + v,
                 args.sums + v, args.squares + v);
    }
  }
}

void moments(const MomentsArgs& args, unsigned part, unsigned parts) {
  const Rows variables = rows_of(args.variables, part, parts);
  with_element_type(args.from,
                    [&](auto tag) { add_moments<typename decltype(tag)::type>(args, variables); });
}

}  // namespace

Kernel<MomentsArgs> moments_kernel() {
  return {"gemm_moments", moments, with_cuda<cuda::moments>()};
}

}  // namespace shardstream::gemm
