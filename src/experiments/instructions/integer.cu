// The cost of integer arithmetic: divisions and remainders by a variable, a literal, a shift and a
// mask, narrow and wide operands, and the type of a loop counter.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "experiments/device_clock.cuh"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/instructions/divisor.hpp"

namespace shardstream::experiments::instructions {

Table integer(Bench& bench);

namespace {

/// Instructions of an operation, with the addition that prepares the next one; NaN if the
/// expectation does not state them. `name` is the case.
double instructions_of(std::string_view name, std::string_view way) {
  constexpr double addition = 1;
  if (way == "variable") return 20 + addition;
  if (way == "same variable") return 10 + addition;
  if (way == "large numbers") return 100 + addition;
  if (way == "literal 10") {
    const double multiply_subtract = name.starts_with("remainder") ? 1 : 0;
    const double correction = name.find("uint") == name.npos ? 1 : 0;
    return 2 + multiply_subtract + correction + addition;
  }
  const bool is_one = way.ends_with("shift") || way.ends_with("mask");
  return is_one ? 1 + addition : std::numeric_limits<double>::quiet_NaN();
}

/// A division or a remainder by a variable of 32 bits shows the time of an instruction. Ways with
/// 64 bits compare with the variable of 32 bits of the same sign.
double expected_rate_of_division(const MeasuredRow& row) {
  const std::string name = row.text("case"), way = row.text("way");
  const bool is_wide = name.ends_with("64");
  if (is_wide && way != "large numbers") return std::nan("");
  const std::string narrow = is_wide ? name.substr(0, name.size() - 2) + "32" : name;
  return row.measured({{"case", narrow}, {"way", "variable"}}) *
         instructions_of(narrow, "variable") / instructions_of(name, way);
}

double expected_rate(const MeasuredRow& row) {
  const std::string name = row.text("case"), way = row.text("way");
  if (name == "multiply-add") {
    constexpr double units = 64, products_of_64_bits = 4;
    const double of_32_bits = row.measured({{"case", name}, {"way", "32 bits"}});
    if (way == "32 bits") return units;
    return way == "64 bits" ? of_32_bits / products_of_64_bits : of_32_bits;
  }
  if (name == "loop counter") return row.measured({{"case", name}, {"way", "int"}});
  return expected_rate_of_division(row);
}

}  // namespace

extern const Experiment about_integer = {
    .name = "integer",
    .group = "instructions",
    .summary = "A division by a variable takes tens of instructions, a shift or a mask takes one.",
    .explanation =
        {
            .question = "What does an integer division cost, and what can replace it?",
            .varies =
                "The cases `division` and `remainder` vary the divisor and the type: a variable, "
                "the `same variable` for all divisions, a literal, a power of two, an explicit "
                "shift or mask. `precomputed` multiplies: the host computes the multiplier once, "
                "and the kernel gets it as an argument. `variable shift` and `variable mask` are "
                "for powers of two that are known at run time only: pass the exponent or the mask. "
                "64 bits have `small numbers` and `large numbers`. In `multiply-add` the operands "
                "have 8 to 64 bits. In `loop counter` each thread adds elements in[offset + stride "
                "* i] from L1. An operation is a division, remainder or multiply-add; the first "
                "two include an addition that prepares the next one. In `loop counter` it is one "
                "element.",
            .expectation =
                "A GPU has no instruction for integer division. For a variable of 32 bits, the "
                "compiler makes a sequence of some 20 instructions; half of them prepare the "
                "divisor, and leave the loop if it is the same for all divisions. For 64 bits it "
                "makes a call of some 100 instructions, which tests first whether both operands "
                "fit in 32 bits: small numbers are cheaper than large ones. A literal divisor "
                "becomes a multiplication and a shift, and a power of two becomes a shift or a "
                "mask. Rates are inverse to the numbers of instructions, with one more for the "
                "addition: 21 for a variable, 11 for the same variable, 3 for a literal and 4 for "
                "its remainder, with one more if the type is signed, 2 for a shift or a mask, and "
                "101 for large numbers of 64 bits. Expect a literal to be three to ten times as "
                "fast as a variable, and shift and mask to be the fastest. Expect 64 bits to be "
                "slower by a factor of two to six, except for a mask, whose high word is 0, and "
                "for small numbers: 64 bits take several instructions of 32 bits. A multiprocessor "
                "makes 64 multiply-adds of integers of 32 bits in a clock, and one of 64 bits "
                "takes four of them: two for the words of the product of the low words, and two "
                "with a high word. Expect char and short to be no faster than int, since they are "
                "extended to int and truncated again. If i is unsigned, offset + stride * i may "
                "wrap around, so that the compiler must compute it for each element; a signed one "
                "may not, so that the compiler may add to a pointer instead. Expect the loop "
                "counters to differ by little, since a load costs more than its address.",
            .pitfalls =
                "If the type is signed, the compiler adds a correction for negative numbers; an "
                "explicit shift or mask has none, and rounds negative numbers differently. All "
                "loops in registers have four independent chains in each thread, on full "
                "multiprocessors, and each multiprocessor counts the clocks from its first block "
                "to its last.",
        },
    .read_on = {{Guide::best_practices, "Division Modulo Operations"},
                {Guide::best_practices, "Loop Counters Signed vs. Unsigned"}},
    .reference =
        "Tesla V100, a reduction of 2^24 floats: 0.624 ms became 0.399 with a shift and a mask "
        "instead of a division and a remainder.",
    .share = "of the rate of the first row of the same case",
    .expected = expected_rate,
    .exercise = {.task = "Predict the rate in op/clock/SM of multiply-adds of 32 and 64 bits, and "
                         "of unsigned divisions of 32 bits by a literal and of 64 bits, if one of "
                         "32 bits by a variable has a rate of 4.",
                 .rows = {{{"case", "multiply-add"}, {"way", "32 bits"}},
                          {{"case", "multiply-add"}, {"way", "64 bits"}},
                          {{"case", "division, uint32"}, {"way", "literal 10"}},
                          {{"case", "division, uint64"}, {"way", "large numbers"}}}},
    .figure = {.look = Look::bars, .x = "way", .y = "rate", .panel = "case"},
    .run = with_cuda<integer>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 256;
constexpr unsigned chains = 4;  // of a thread
constexpr unsigned unrolled = 4;

/// When a block ran, in clocks of its multiprocessor.
struct Span {
  std::uint64_t multiprocessor;
  long long begin, end;
};

/// Stores the span of `body`, which all threads of the block do.
template <class Body>
__device__ void record(Span* spans, const Body& body) {
  __syncthreads();
  const long long begin = clock64();
  body();
  __syncthreads();
  if (threadIdx.x == 0) spans[blockIdx.x] = {multiprocessor(), begin, clock64()};
}

// --------------------------------------------------------------------------------- the operations

// They get the number of the operation, which keeps the compiler from preparing a changing divisor
// before the loop.

/// By d, which the compiler does not know.
template <class T>
struct BySame {
  T d;
  __host__ __device__ T quotient(T x, unsigned) const { return x / d; }
  __host__ __device__ T remainder(T x, unsigned) const { return x % d; }
};

/// By d plus the number of the operation.
template <class T>
struct ByChanging {
  T d;
  __host__ __device__ T quotient(T x, unsigned i) const { return x / (d + static_cast<T>(i)); }
  __host__ __device__ T remainder(T x, unsigned i) const { return x % (d + static_cast<T>(i)); }
};

/// By a number below 2^31, with a multiplier that the host has computed.
struct ByMultiplier {
  Divisor d;
  __host__ __device__ std::uint32_t quotient(std::uint32_t x, unsigned) const {
    return d.quotient(x);
  }
  __host__ __device__ std::uint32_t remainder(std::uint32_t x, unsigned) const {
    return d.remainder(x);
  }
};

template <class T, T d>
struct ByLiteral {
  __host__ __device__ T quotient(T x, unsigned) const { return x / d; }
  __host__ __device__ T remainder(T x, unsigned) const { return x % d; }
};

/// By 2^k, for numbers that are not negative.
template <class T, unsigned k>
struct ByShift {
  __host__ __device__ T quotient(T x, unsigned) const { return x >> k; }
  __host__ __device__ T remainder(T x, unsigned) const { return x & ((T{1} << k) - 1); }
};

/// By a power of two that is known at run time.
template <class T>
struct ByVariableShift {
  unsigned k;
  T mask;
  __host__ __device__ T quotient(T x, unsigned) const { return x >> k; }
  __host__ __device__ T remainder(T x, unsigned) const { return x & mask; }
};

enum class Case { division, remainder };

template <Case Of, class By>
struct Division {
  By by;
  template <class T>
  __host__ __device__ T operator()(T x, T addend, unsigned i) const {
    return (Of == Case::division ? by.quotient(x, i) : by.remainder(x, i)) + addend;
  }
};

/// Numbers of 8 and 16 bits are extended to int; the result is truncated.
template <class T>
struct MultiplyAdd {
  T factor;
  __host__ __device__ T operator()(T x, T addend, unsigned) const {
    return static_cast<T>(x * factor + addend);
  }
};

/// Hides from the compiler how `x` was computed, so that it does not combine two operations. It
/// takes no instruction.
template <class T>
__device__ void hide_origin(T& x) {
  if constexpr (sizeof(T) == 4) asm volatile("" : "+r"(x));
  if constexpr (sizeof(T) == 8) asm volatile("" : "+l"(x));
}

/// Repeats `operation` on values that begin as addend - i for the chain i of all.
template <class Operation, class T>
__global__ void __launch_bounds__(threads)
    repeat(Operation operation, T addend, unsigned rounds, T* results, Span* spans) {
  const unsigned first = (blockIdx.x * threads + threadIdx.x) * chains;
  T x[chains];
#pragma unroll
  for (unsigned c = 0; c < chains; ++c) x[c] = static_cast<T>(addend - static_cast<T>(first + c));
  record(spans, [&] {
#pragma unroll 1
    for (unsigned round = 0; round < rounds; round += unrolled) {
#pragma unroll
      for (unsigned step = 0; step < unrolled; ++step) {
#pragma unroll
        for (unsigned c = 0; c < chains; ++c) {
          x[c] = operation(x[c], addend, (round + step) * chains + c);
          hide_origin(x[c]);
        }
      }
    }
  });
#pragma unroll
  for (unsigned c = 0; c < chains; ++c) results[first + c] = x[c];
}

constexpr unsigned loop_steps = 128, loop_stride = 32;
/// Words that a loop reads, 20 KiB for 32 rounds; each round begins one stride later.
constexpr unsigned loop_words(unsigned rounds) {
  return (loop_steps + rounds) * loop_stride;
}

/// Each thread adds elements that are `stride` words apart, and lanes read neighbouring ones. `I`
/// is the type of the counter.
template <class I>
__global__ void __launch_bounds__(threads)
    add_strided(const unsigned* __restrict__ in, I stride, I steps, unsigned rounds, unsigned* sums,
                Span* spans) {
  unsigned sum = 0;
  record(spans, [&] {
#pragma unroll 1
    for (unsigned round = 0; round < rounds; ++round) {
      const I offset = static_cast<I>(threadIdx.x % loop_stride + round * loop_stride);
#pragma unroll 4
      for (I i = 0; i < steps; ++i) sum += in[offset + stride * i];
    }
  });
  sums[blockIdx.x * threads + threadIdx.x] = sum;
}

/// Word i is i.
__global__ void number(unsigned* words, unsigned count) {
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  if (i < count) words[i] = i;
}

// -------------------------------------------------------------------------------- the experiment

/// The clocks of a multiprocessor from its first block to its last, as a sum over all
/// multiprocessors that had a block.
double clocks_of(const std::vector<Span>& spans) {
  std::map<unsigned, Span> all;
  for (const Span& span : spans) {
    Span& whole = all.try_emplace(span.multiprocessor, span).first->second;
    whole.begin = std::min(whole.begin, span.begin);
    whole.end = std::max(whole.end, span.end);
  }
  double sum = 0;
  for (const auto& [number, span] : all) sum += static_cast<double>(span.end - span.begin);
  return sum;
}

/// A row of the table, before its kernel is measured.
struct Row {
  std::string name;
  const char* way;
  double operations_of_block;
  double bytes_of_block;
};

/// Measures kernels and adds their rows. Not thread-safe.
class Rates {
 public:
  Rates(Bench& bench, Gpu& gpu) : bench_(bench), gpu_(gpu) {}

  /// Number of blocks of `kernel` that fill all multiprocessors.
  template <class Kernel>
  unsigned blocks_of(Kernel* kernel) const {
    int blocks = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, int{threads}, 0),
          "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    return static_cast<unsigned>(blocks * gpu_.properties().multiProcessorCount);
  }

  /// Measures `launch`, which runs `blocks` blocks that store their spans. Its answer has been
  /// verified.
  void add(const Row& row, unsigned blocks, const std::function<void(Span*)>& launch) {
    const DeviceArray<Span> spans(blocks);
    const Measured rate = bench_.repeat([&] {
      launch(spans.data());
      return row.operations_of_block * blocks / clocks_of(spans.read());
    });
    const double first = first_.try_emplace(row.name, rate.value).first->second;
    const double factor = rate.value / first;
    rows_.add(
        {row.name, row.way}, rate, factor,
        factor == 1 ? "the others are compared with it" : ratio_text(factor) + " times as fast",
        {row.operations_of_block * blocks, row.bytes_of_block * blocks},
        std::numeric_limits<double>::quiet_NaN());
  }

  /// Measures `operation`, after a comparison with the host.
  template <class T, class Operation>
  void add_operation(const std::string& name, const char* way, T addend, Operation operation) {
    const unsigned rounds = 1024;
    const unsigned blocks = blocks_of(repeat<Operation, T>);
    const DeviceArray<T> results(std::uint64_t{blocks} * threads * chains);
    const auto launch = [&](Span* spans) {
      repeat<<<blocks, threads, 0, gpu_.stream()>>>(operation, addend, rounds, results.data(),
                                                    spans);
      check_launch(way);
    };
    const DeviceArray<Span> spans(blocks);
    results.clear(gpu_.stream());
    launch(spans.data());
    bench_.verify(are_right(results.read(), addend, rounds, operation),
                  formatted("{}, {}", name, std::string(way)));
    const double values = threads * chains;
    add({name, way, values * rounds, values * sizeof(T)}, blocks, launch);
  }

  template <class I>
  void add_loop(const char* type) {
    const unsigned rounds = 32;
    const unsigned blocks = blocks_of(add_strided<I>);
    const DeviceArray<unsigned> words(loop_words(rounds));
    number<<<blocks_for(words.size(), threads), threads, 0, gpu_.stream()>>>(words.data(),
                                                                             loop_words(rounds));
    check_launch("number");
    const DeviceArray<unsigned> sums(std::uint64_t{blocks} * threads);
    const auto launch = [&](Span* spans) {
      add_strided<I><<<blocks, threads, 0, gpu_.stream()>>>(words.data(), loop_stride, loop_steps,
                                                            rounds, sums.data(), spans);
      check_launch("add_strided");
    };
    const DeviceArray<Span> spans(blocks);
    sums.clear(gpu_.stream());
    launch(spans.data());
    bool is_right = true;
    const std::vector<unsigned> found = sums.read();
    for (unsigned t = 0; t < found.size(); ++t) {
      const unsigned of_steps = loop_stride * (loop_steps * (loop_steps - 1) / 2);
      const unsigned expected = rounds * (of_steps + loop_steps * (t % loop_stride)) +
                                loop_steps * loop_stride * (rounds * (rounds - 1) / 2);
      is_right = is_right && found[t] == expected;
    }
    bench_.verify(is_right, formatted("the loop with a counter of type {}", std::string(type)));
    const double elements = 1.0 * threads * rounds * loop_steps;
    add({"loop counter", type, elements, sizeof(unsigned) * (elements + threads)}, blocks, launch);
  }

  Table table() && { return std::move(rows_).table(); }

 private:
  /// Compares the results of the first and the last block.
  template <class T, class Operation>
  static bool are_right(const std::vector<T>& results, T addend, unsigned rounds,
                        Operation operation) {
    constexpr std::size_t of_block = threads * chains;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (i == of_block) i = results.size() - of_block;
      auto x = static_cast<T>(addend - static_cast<T>(i));
      const auto chain = static_cast<unsigned>(i % chains);
      for (unsigned round = 0; round < rounds; ++round) {
        x = operation(x, addend, round * chains + chain);
      }
      if (results[i] != x) return false;
    }
    return true;
  }

  Bench& bench_;
  Gpu& gpu_;
  Measurements rows_{{{"case", ColumnType::text}, {"way", ColumnType::text}},
                     {"rate", ColumnType::real, "op/clock/SM"},
                     Rows::of_kernels};
  std::map<std::string, double> first_;  ///< the rate of the first row of each case
};

/// The dividends of all but `small numbers` have about as many bits as their type.
constexpr std::uint32_t large_32 = 1'800'000'000;
constexpr std::uint64_t large_64 = 8'000'000'000'000'000'000;

/// Adds the ways of a case for the types T32 and T64, which are both signed or both unsigned. A
/// mask compiles to the same code for signed numbers and for unsigned ones, and an unsigned literal
/// 8 compiles to a shift or a mask.
template <Case Of, class T32, class T64>
void add_divisions(Rates& rates, const char* type_32, const char* type_64) {
  constexpr bool is_division = Of == Case::division, is_signed = std::is_signed_v<T32>;
  const std::string name(is_division ? "division, " : "remainder, ");
  const auto add = [&](const char* way, const char* type, auto addend, auto by) {
    rates.add_operation(name + type, way, addend, Division<Of, decltype(by)>{by});
  };
  const char* const shift = is_division ? "shift" : "mask";
  const char* const variable_shift = is_division ? "variable shift" : "variable mask";
  constexpr T32 of_32 = large_32;
  constexpr T64 of_64 = large_64;
  add("variable", type_32, of_32, ByChanging<T32>{10});
  add("same variable", type_32, of_32, BySame<T32>{10});
  if constexpr (!is_signed) add("precomputed", type_32, of_32, ByMultiplier{Divisor(10)});
  add("literal 10", type_32, of_32, ByLiteral<T32, 10>{});
  if constexpr (is_signed) add("literal 8", type_32, of_32, ByLiteral<T32, 8>{});
  if constexpr (is_division || !is_signed) {
    add(shift, type_32, of_32, ByShift<T32, 3>{});
    add(variable_shift, type_32, of_32, ByVariableShift<T32>{3, 7});
  }
  add("large numbers", type_64, of_64, ByChanging<T64>{10});
  add("small numbers", type_64, T64{large_32}, ByChanging<T64>{10});
  add("literal 10", type_64, of_64, ByLiteral<T64, 10>{});
  if constexpr (is_division || !is_signed) add(shift, type_64, of_64, ByShift<T64, 3>{});
}

}  // namespace

Table integer(Bench& bench) {
  Gpu gpu(bench);
  Rates rates(bench, gpu);
  add_divisions<Case::division, std::uint32_t, std::uint64_t>(rates, "uint32", "uint64");
  add_divisions<Case::division, std::int32_t, std::int64_t>(rates, "int32", "int64");
  add_divisions<Case::remainder, std::uint32_t, std::uint64_t>(rates, "uint32", "uint64");
  add_divisions<Case::remainder, std::int32_t, std::int64_t>(rates, "int32", "int64");
  rates.add_operation("multiply-add", "32 bits", 12345U, MultiplyAdd<std::uint32_t>{69069});
  rates.add_operation("multiply-add", "8 bits", std::int8_t{5}, MultiplyAdd<std::int8_t>{13});
  rates.add_operation("multiply-add", "16 bits", std::int16_t{5}, MultiplyAdd<std::int16_t>{13});
  rates.add_operation("multiply-add", "64 bits", std::uint64_t{12345},
                      MultiplyAdd<std::uint64_t>{6364136223846793005U});
  rates.add_loop<int>("int");
  rates.add_loop<unsigned>("unsigned");
  rates.add_loop<std::int64_t>("int64");
  return std::move(rates).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::instructions
