// The rate and the accuracy of mathematical functions: what a function may be replaced by, and what
// that costs. math_functions.cu has the functions, math_kernels.cuh the kernels that compute them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/instructions/math_functions.hpp"

namespace shardstream::experiments::instructions {

constexpr OptionRow options[] = {
    {"math.cases", OptionKind::list, "functions", "functions|exponents|flags",
     "The cases: functions and what may replace them, the 22 fractional exponents of the guide, "
     "and functions that depend on flags of nvcc."},
    {"math.step", OptionKind::count, "1", "1..1000000",
     "The error is the largest one of every step-th argument. The default with --quick is 1021."},
};

Table math(Bench& bench);

namespace {

/// The instructions of the special function units that an intrinsic takes; NaN if it is no
/// intrinsic.
double special_instructions_of(std::string_view function) {
  if (function == "__sincosf(x)" || function.starts_with("__powf")) return 2;
  return function.starts_with("__") ? 1 : std::numeric_limits<double>::quiet_NaN();
}

/// The instructions of a row of products and sums with the multiply-add of the measurement; NaN if
/// it has others, too. The compiler fuses none (-fmad=false).
double products_of(std::string_view function) {
  if (function == "x * x" || function == "x * (1.0f / 3)") return 1 + 1;
  if (function == "x * x * x" || function == "1.1f * x + 0.3f") return 2 + 1;
  return function == "((x * x)^2)^2" ? 3 + 1 : std::numeric_limits<double>::quiet_NaN();
}

/// __sinf(x) shows the rate of the special function units, and x * x that of products.
double expected_rate(const MeasuredRow& row) {
  constexpr double slow_reduction = 10;
  const std::string function = row.text("function");
  if (function == "sinf(x > 105615)") {
    return row.measured({{"function", "sinf(x)"}}, {"case"}) / slow_reduction;
  }
  const double special = special_instructions_of(function);
  if (special > 0) return row.measured({{"function", "__sinf(x)"}}) / special;
  return row.measured({{"function", "x * x"}}) * products_of("x * x") / products_of(function);
}

}  // namespace

extern const Experiment about_math = {
    .name = "math",
    .group = "instructions",
    .summary = "Special functions, intrinsics and flags trade accuracy of a function for speed.",
    .explanation =
        {
            .question =
                "Which function may replace another one, how much faster is it, and how much "
                "accuracy does that cost?",
            .varies =
                "Each case begins with a function and has its replacements: special functions such "
                "as rsqrtf, sinpif, sincosf, exp2f, erfcf and cbrtf; products instead of small "
                "integer powers; intrinsics such as __sinf and __fdividef, which use the "
                "hardware's approximations; float constants instead of double ones, which make the "
                "compiler compute in double. The option math.cases adds the 22 fractional "
                "exponents of the guide by roots, and the cases `by flags`: they compile one "
                "source several times, each time with one flag of nvcc more, if it changes the "
                "code of the function. `error` is the largest distance from the exact value for "
                "all floats `from` - `to` in which argument and result are normal numbers, in "
                "units in the last place (ulp), and `at` the argument with this error; 0.5 is a "
                "correct rounding. `subnormal` is the same if one of the two is below 2^-126, "
                "which -ftz=true sets to 0. An infinite error is a result that overflows although "
                "the exact one does not.",
            .expectation =
                "Expect exp2f, exp10f, cbrtf and products to be several times as fast as powf with "
                "an error of few ulp, sinpif and rsqrtf to be faster than sinf of a product and 1 "
                "/ sqrtf, and erfcf to be slower than 1 - erff, which has no right bit if erff is "
                "close to 1. A division by 180 costs more than sinpif saves, so multiply by 1 / "
                "180. powf(x, 1/3) has a large error, since 1/3 is no float: for such exponents, "
                "expect the root formulas to be faster and more accurate, and for multiples of 1/4 "
                "to be faster, with an error of few ulp. Expect intrinsics to be the fastest, at "
                "the rate of the special function units, with an error that is small in most of "
                "the range and leaves no bit near zeros of the function. A multiprocessor has 16 "
                "of these units, so an instruction of a warp takes two clocks; __sincosf and "
                "__powf need two of them. A product and the multiply-add of the measurement are "
                "one instruction each, so x * x * x has two thirds of the rate of x * x. Expect "
                "sinf of arguments above 105615 to be ten times as slow, since their reduction "
                "takes many digits of pi. Expect -use_fast_math to do all of this at once, so "
                "prefer intrinsics where they matter. A result with an error of e ulp has 23 - "
                "log2(e) right bits of 24, so none from 8.4e6 ulp on; the remark states them for "
                "the worst argument.",
            .pitfalls =
                "Arguments whose exact value is 0 are left out, and so are negative ones if a "
                "function is odd or even. The exact values are computed in double, whose last "
                "place is 2^-29 of a float's; 1024 of them are compared with long double on the "
                "host. A quotient y / x has a y in [1, 2) that varies with x. The rate counts "
                "calls of full multiprocessors, with arguments from the same range, and includes a "
                "multiply-add for each argument. This program itself is compiled with the default "
                "flags and with -fmad=false, which does not concern functions of the library.",
        },
    .read_on = {{Guide::best_practices, "Math Libraries"},
                {Guide::best_practices, "Exponentiation With Small Fractional Arguments"},
                {Guide::best_practices, "Precision-related Compiler Flags"},
                {Guide::programming, "Mathematical Functions", "mathematical-functions-appendix"}},
    .reference =
        "NVIDIA's guide: exp2f and exp10f are up to ten times as fast as powf, and sinf is ten "
        "times as slow for large arguments.",
    .share = "of the rate of the function above that it replaces",
    .options = options,
    .expected = expected_rate,
    .exercise = {.task = "Predict the rate in Gop/s of __sinf(x), of __sincosf(x) and of "
                         "__powf(x, n), from the clock and the number of multiprocessors.",
                 .rows = {{{"case", "sine"}, {"function", "__sinf(x)"}},
                          {{"case", "sine and cosine"}, {"function", "__sincosf(x)"}},
                          {{"case", "x^2.5"}, {"function", "__powf(x, n)"}}}},
    .figure = {.look = Look::bars, .x = "function", .y = "rate", .panel = "case"},
    .run = with_cuda<math>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

/// The exact value with the precision of double: an error of at most some 5 ulp of double, which
/// are 10^-8 ulp of float.
__device__ double exact_on_device(Exact function, double p, float of_x, float of_y) {
  const double x = of_x, y = of_y;
  switch (function) {
    case Exact::sine:
      return sin(x);
    case Exact::cosine:
      return cos(x);
    case Exact::tangent:
      return tan(x);
    case Exact::sine_pi:
      return sinpi(x);
    case Exact::cosine_pi:
      return cospi(x);
    case Exact::sine_degrees:
      return sinpi(x / 180);
    case Exact::exponential:
      return exp(x);
    case Exact::exponential_2:
      return exp2(x);
    case Exact::exponential_10:
      return exp10(x);
    case Exact::logarithm:
      return log(x);
    case Exact::logarithm_2:
      return log2(x);
    case Exact::logarithm_10:
      return log10(x);
    case Exact::complement:
      return erfc(x);
    case Exact::power:
      return pow(x, p);
    case Exact::quotient:
      return y / x;
    case Exact::third:
      return x / 3;
    case Exact::line:
      return 1.1 * x + 0.3;
  }
  return 0;
}

__global__ void __launch_bounds__(threads)
    store_exact(Exact function, double p, Arguments arguments, double* values) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i >= arguments.count) return;
  values[i] = exact_on_device(function, p, arguments.x(i), arguments.y(i));
}

/// An error as a float, in the high word, and the bits of its argument: the larger number is the
/// larger error.
using Packed = unsigned long long;

struct Worst {
  Packed normal;     ///< if the argument and the exact value are normal numbers or 0
  Packed subnormal;  ///< if one of them is subnormal
};

/// Most threads find nothing larger, and need no atomic.
__device__ void raise(Packed* to, Packed error) {
  if (error > *static_cast<volatile Packed*>(to)) atomicMax(to, error);
}

/// Compares the results of `count` arguments from `begin` on.
__global__ void __launch_bounds__(threads)
    find_worst(Exact function, double p, Arguments arguments, std::uint64_t begin,
               std::uint64_t count, const float* results, Worst* worst) {
  Packed normal = 0, subnormal = 0;
  const std::uint64_t step = std::uint64_t{gridDim.x} * threads;
  for (std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x; i < count; i += step) {
    const float x = arguments.x(begin + i);
    const double exact = exact_on_device(function, p, x, arguments.y(begin + i));
    if (exact == 0) continue;
    const auto error = static_cast<float>(error_in_ulp(results[i], exact));
    const Packed packed = Packed{__float_as_uint(error)} << 32 | __float_as_uint(x);
    Packed& larger = is_subnormal(x) || is_subnormal(exact) ? subnormal : normal;
    larger = max(larger, packed);
  }
  raise(&worst->normal, normal);
  raise(&worst->subnormal, subnormal);
}

// -------------------------------------------------------------------------------- the experiment

/// The largest errors of a function.
struct Errors {
  double normal;     ///< ulp
  double subnormal;  ///< ulp; NaN if there is none
  double at;         ///< the argument of `normal`
};

/// Measures functions. Not thread-safe.
class Functions {
 public:
  Functions(Bench& bench, Gpu& gpu, std::uint32_t step)
      : bench_(bench),
        gpu_(gpu),
        step_(step),
        multiprocessors_(static_cast<unsigned>(gpu.properties().multiProcessorCount)),
        blocks_(multiprocessors_ *
                static_cast<unsigned>(gpu.properties().maxThreadsPerMultiProcessor) / threads),
        results_(std::max(batch, std::uint64_t{blocks_} * repeat_granule)) {}

  void add(const Case& function) {
    const Errors errors = errors_of(function);
    const Measured rate = rate_of(function);
    if (function.is_base) base_ = {function.function.name, rate.value, errors.normal};
    const std::string remark =
        function.is_base ? "the others of this case are compared with it"
                         : formatted("{} times as fast as {}, {:.0f} right bits instead of {:.0f}",
                                     ratio_text(rate.value / base_.rate), base_.name,
                                     right_bits(errors.normal), right_bits(base_.error));
    const double calls = calls_of_thread * threads * blocks_;
    rows_.add({function.topic, function.function.name, double{function.from}, double{function.to},
               errors.normal, errors.at, errors.subnormal},
              rate, rate.value / base_.rate, remark,
              {calls, 1.0 * sizeof(float) * chains * threads * blocks_}, calls / rate.value / 1e9);
  }

  Table table() && { return std::move(rows_).table(); }

 private:
  static constexpr std::uint64_t batch = std::uint64_t{1}
                                         << 23;  // results that are compared at once
  static constexpr unsigned rounds = 256;
  static constexpr double calls_of_thread = 2.0 * rounds * chains;

  static Arguments with_second(const Case& function, Arguments arguments) {
    arguments.second = function.second;
    arguments.fixed = static_cast<float>(function.p);
    return arguments;
  }

  /// The largest errors of all arguments, after a comparison of some with the host.
  Errors errors_of(const Case& function) {
    const Arguments all =
        with_second(function, arguments_between(function.from, function.to, step_));
    const DeviceArray<Worst> worst(1);
    worst.clear(gpu_.stream());
    for (std::uint64_t begin = 0; begin < all.count; begin += batch) {
      const std::uint64_t count = std::min(batch, all.count - begin);
      function.function.evaluate(all, begin, count, results_.data(), gpu_.stream());
      find_worst<<<8 * multiprocessors_, threads, 0, gpu_.stream()>>>(
          function.exact, function.p, all, begin, count, results_.data(), worst.data());
      check_launch("find_worst");
      bench_.heartbeat().move();
    }
    const auto [normal, subnormal] = worst.read()[0];
    const auto error_of = [](Packed packed) {
      return double{std::bit_cast<float>(static_cast<std::uint32_t>(packed >> 32))};
    };
    const Errors errors{error_of(normal), subnormal == 0 ? std::nan("") : error_of(subnormal),
                        std::bit_cast<float>(static_cast<std::uint32_t>(normal))};
    verify_some(function, all, errors);
    return errors;
  }

  /// Throws Unverified unless the exact values of the device agree with long double on the host,
  /// and the host finds no error above `errors`.
  void verify_some(const Case& function, const Arguments& all, const Errors& errors) {
    constexpr double double_precision = 4e-15, float_precision = 1e-5;  // relative
    const Arguments some = sample_of(all, 1024);
    const DeviceArray<double> exact(some.count);
    function.function.evaluate(some, 0, some.count, results_.data(), gpu_.stream());
    store_exact<<<blocks_for(some.count, threads), threads, 0, gpu_.stream()>>>(
        function.exact, function.p, some, exact.data());
    check_launch("store_exact");
    const std::vector<double> on_device = exact.read();
    const std::vector<float> results = results_.read(0, some.count);
    bool is_right = true;
    for (std::uint64_t i = 0; i < some.count; ++i) {
      const float x = some.x(i);
      const long double on_host = exact_on_host(function.exact, function.p, x, some.y(i));
      const auto difference = static_cast<double>(std::abs(on_device[i] - on_host));
      const double value = std::abs(static_cast<double>(on_host));
      is_right = is_right && (difference <= double_precision * value ||
                              (std::isinf(value) && std::isinf(on_device[i])));
      if (value == 0 || is_subnormal(x) || is_subnormal(on_device[i])) continue;
      const double error = error_in_ulp(results[i], static_cast<double>(on_host));
      is_right = is_right && error <= errors.normal * (1 + float_precision) + float_precision;
    }
    bench_.verify(is_right, formatted("{}: the reference, or the error of {}", function.topic,
                                      std::string(function.function.name)));
  }

  /// The rate of calls, for arguments that are spread over all normal ones. Each thread keeps its
  /// arguments if all results are finite.
  Measured rate_of(const Case& function) {
    const std::uint64_t count = std::uint64_t{blocks_} * repeat_granule;
    const float from = function.from > 0 ? std::max(function.from, min_normal) : function.from;
    Arguments spread = with_second(function, arguments_between(from, function.to, 1));
    spread.step = static_cast<std::uint32_t>(std::max<std::uint64_t>(spread.count / count, 1));
    spread.count = count;
    const auto launch = [&] {
      function.function.repeat(spread, rounds, results_.data(), gpu_.stream());
    };
    launch();
    const std::vector<float> kept = results_.read(0, count);
    bool is_right = true;
    for (std::uint64_t i = 0; i < count; ++i) {
      const float x = is_subnormal(spread.x(i)) && kept[i] == 0 ? 0 : spread.x(i);
      is_right = is_right && kept[i] == x;
    }
    bench_.verify(is_right, formatted("{}: repeated calls of {}", function.topic,
                                      std::string(function.function.name)));
    return gpu_.time(launch).rate(calls_of_thread * threads * blocks_);
  }

  struct Base {
    std::string name;
    double rate, error;
  };

  Bench& bench_;
  Gpu& gpu_;
  std::uint32_t step_;
  unsigned multiprocessors_, blocks_;
  DeviceArray<float> results_;
  Base base_{};
  Measurements rows_{{{"case", ColumnType::text},
                      {"function", ColumnType::text},
                      {"from", ColumnType::real},
                      {"to", ColumnType::real},
                      {"error", ColumnType::real, "ulp"},
                      {"at", ColumnType::real},
                      {"subnormal", ColumnType::real, "ulp"}},
                     {"rate", ColumnType::real, "Gop/s"},
                     Rows::of_kernels};
};

}  // namespace

Table math(Bench& bench) {
  Gpu gpu(bench);
  const bool is_usual = bench.options().is_default("math.step") && bench.is_quick();
  const auto step =
      static_cast<std::uint32_t>(is_usual ? 1021 : bench.options().count("math.step"));
  Functions functions(bench, gpu, step);
  for (const std::string& cases : bench.options().list("math.cases")) {
    const bool are_exponents = cases == "exponents", are_flagged = cases == "flags";
    for (const Case& each : are_exponents ? exponent_cases()
                            : are_flagged ? flagged_cases()
                                          : plain_cases()) {
      functions.add(each);
    }
  }
  bench.note(
      step == 1
          ? std::string("The errors are the largest ones of all floats `from` - `to`.")
          : formatted("The errors are the largest ones of one in {} floats `from` - `to`.", step));
  return std::move(functions).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::instructions
