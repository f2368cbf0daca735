// The functions that the experiment `math` compares: each group begins with the plain function and
// has what may replace it.
#include <limits>
#include <string>
#include <vector>

#include "experiments/instructions/math_kernels.cuh"

namespace shardstream::experiments::instructions {
namespace {

constexpr float pi = 3.14159265F;

// ------------------------------------------------------------------------------------ trigonometry

__device__ float sine(float x) {
  return sinf(x);
}
__device__ float fast_sine(float x) {
  return __sinf(x);
}
__device__ float sine_of_pi_times(float x) {
  return sinf(pi * x);
}
__device__ float sine_pi(float x) {
  return sinpif(x);
}
__device__ float cosine_of_pi_times(float x) {
  return cosf(pi * x);
}
__device__ float cosine_pi(float x) {
  return cospif(x);
}
__device__ float sine_of_radians(float x) {
  return sinf(x * (pi / 180));
}
__device__ float sine_pi_of_degrees(float x) {
  return sinpif(x / 180);
}
__device__ float sine_pi_of_product(float x) {
  return sinpif(x * (1.0F / 180));
}
__device__ Pair sine_and_cosine(float x) {
  return {sinf(x), cosf(x)};
}
__device__ Pair both(float x) {
  Pair result;
  sincosf(x, &result.first, &result.second);
  return result;
}
__device__ Pair fast_both(float x) {
  Pair result;
  __sincosf(x, &result.first, &result.second);
  return result;
}
__device__ Pair both_pi(float x) {
  Pair result;
  sincospif(x, &result.first, &result.second);
  return result;
}

// -------------------------------------------------------------------- exponentials and logarithms

__device__ float power(float x, float y) {
  return powf(x, y);
}
/// The base is y, and x the exponent.
__device__ float power_of_base(float x, float y) {
  return powf(y, x);
}
__device__ float fast_power(float x, float y) {
  return __powf(x, y);
}
__device__ float exponential(float x) {
  return expf(x);
}
__device__ float fast_exponential(float x) {
  return __expf(x);
}
__device__ float exponential_2(float x) {
  return exp2f(x);
}
__device__ float exponential_10(float x) {
  return exp10f(x);
}
__device__ float fast_exponential_10(float x) {
  return __exp10f(x);
}
__device__ float logarithm(float x) {
  return logf(x);
}
__device__ float fast_logarithm(float x) {
  return __logf(x);
}
__device__ float one_minus_erf(float x) {
  return 1 - erff(x);
}
__device__ float complement(float x) {
  return erfcf(x);
}

// ------------------------------------------------------------------------- products and quotients

__device__ float square(float x) {
  return x * x;
}
__device__ float cube(float x) {
  return x * x * x;
}
__device__ float eighth_power(float x) {
  const float x2 = x * x, x4 = x2 * x2;
  return x4 * x4;
}
__device__ float quotient(float x, float y) {
  return y / x;
}
__device__ float fast_quotient(float x, float y) {
  return __fdividef(y, x);
}
__device__ float product_with_reciprocal(float x, float y) {
  return y * (1 / x);
}
__device__ float third(float x) {
  return x / 3;
}
__device__ float product_with_third(float x) {
  return x * (1.0F / 3);
}
/// Constants without F are double: so are the product and the sum.
__device__ float double_line(float x) {
  return static_cast<float>(1.1 * x + 0.3);
}
__device__ float float_line(float x) {
  return 1.1F * x + 0.3F;
}

// --------------------------------------------------------------------------- fractional exponents

__device__ float one_over_root(float x) {
  return 1 / sqrtf(x);
}
__device__ float one_over_cube_root(float x) {
  return 1 / cbrtf(x);
}
__device__ float ninth(float x) {
  return rcbrtf(rcbrtf(x));
}
__device__ float minus_ninth(float x) {
  return cbrtf(rcbrtf(x));
}
__device__ float sixth(float x) {
  return rcbrtf(rsqrtf(x));
}
__device__ float minus_sixth(float x) {
  return rcbrtf(sqrtf(x));
}
__device__ float quarter(float x) {
  return rsqrtf(rsqrtf(x));
}
__device__ float minus_quarter(float x) {
  return sqrtf(rsqrtf(x));
}
__device__ float cube_root(float x) {
  return cbrtf(x);
}
__device__ float minus_third(float x) {
  return rcbrtf(x);
}
__device__ float half(float x) {
  return sqrtf(x);
}
__device__ float minus_half(float x) {
  return rsqrtf(x);
}
__device__ float two_thirds(float x) {
  const float r = cbrtf(x);
  return r * r;
}
__device__ float minus_two_thirds(float x) {
  const float r = rcbrtf(x);
  return r * r;
}
__device__ float three_quarters(float x) {
  const float r = sqrtf(x);
  return r * sqrtf(r);
}
__device__ float minus_three_quarters(float x) {
  const float r = rsqrtf(x);
  return r * sqrtf(r);
}
__device__ float seven_sixths(float x) {
  return x * rcbrtf(rsqrtf(x));
}
__device__ float minus_seven_sixths(float x) {
  return 1 / x * rcbrtf(sqrtf(x));
}
__device__ float five_quarters(float x) {
  return x * rsqrtf(rsqrtf(x));
}
__device__ float minus_five_quarters(float x) {
  return 1 / x * sqrtf(rsqrtf(x));
}
__device__ float four_thirds(float x) {
  return x * cbrtf(x);
}
__device__ float minus_four_thirds(float x) {
  return 1 / x * rcbrtf(x);
}
__device__ float three_halves(float x) {
  return x * sqrtf(x);
}
__device__ float minus_three_halves(float x) {
  return 1 / x * rsqrtf(x);
}

// ---------------------------------------------------------------------------------------- the list

constexpr float smallest = 0x1p-149F, largest = std::numeric_limits<float>::max();
constexpr float slow_sine = 105615;  // sinf and cosf reduce larger arguments by a slow path

Function named(Function function, const char* name) {
  function.name = name;
  return function;
}

void add_trigonometry(std::vector<Case>& all) {
  const auto add = [&](const char* topic, const Function& function, Exact exact, float from,
                       float to, bool is_base = false) {
    all.push_back({topic, function, exact, from, to, is_base});
  };
  const Function slow = compiled<sine>("sinf(x)"), fast = compiled<fast_sine>("__sinf(x)");
  add("sine", slow, Exact::sine, smallest, pi, true);
  add("sine", fast, Exact::sine, smallest, pi);
  add("large sine", slow, Exact::sine, pi, slow_sine, true);
  add("large sine", fast, Exact::sine, pi, slow_sine);
  add("large sine", named(slow, "sinf(x > 105615)"), Exact::sine, slow_sine, largest);
  constexpr float max_whole = 0x1p22F;
  add("sine of pi x", compiled<sine_of_pi_times>("sinf(pi * x)"), Exact::sine_pi, smallest,
      max_whole, true);
  add("sine of pi x", compiled<sine_pi>("sinpif(x)"), Exact::sine_pi, smallest, max_whole);
  add("cosine of pi x", compiled<cosine_of_pi_times>("cosf(pi * x)"), Exact::cosine_pi, smallest,
      max_whole, true);
  add("cosine of pi x", compiled<cosine_pi>("cospif(x)"), Exact::cosine_pi, smallest, max_whole);
  constexpr float small_angle = 0x1p-100F;  // so that x / 180 is a normal number
  add("sine of degrees", compiled<sine_of_radians>("sinf(x * (pi / 180))"), Exact::sine_degrees,
      small_angle, 90, true);
  add("sine of degrees", compiled<sine_pi_of_degrees>("sinpif(x / 180)"), Exact::sine_degrees,
      small_angle, 90);
  add("sine of degrees", compiled<sine_pi_of_product>("sinpif(x * (1 / 180))"), Exact::sine_degrees,
      small_angle, 90);
  add("sine and cosine", compiled<sine_and_cosine>("sinf(x), cosf(x)"), Exact::cosine, smallest, pi,
      true);
  add("sine and cosine", compiled<both>("sincosf(x)"), Exact::cosine, smallest, pi);
  add("sine and cosine", compiled<fast_both>("__sincosf(x)"), Exact::cosine, smallest, pi);
  add("sine and cosine", compiled<both_pi>("sincospif(x)"), Exact::cosine_pi, smallest, max_whole);
}

void add_exponentials(std::vector<Case>& all) {
  // powf gets its base as y, which is the same number as p.
  const Function base = compiled<power_of_base>("powf(b, x)");
  all.push_back({"2^x", base, Exact::exponential_2, -149, 127.99F, true, 2});
  all.push_back({"2^x", compiled<exponential_2>("exp2f(x)"), Exact::exponential_2, -149, 127.99F});
  all.push_back({"10^x", base, Exact::exponential_10, -44.8F, 38.5F, true, 10});
  all.push_back(
      {"10^x", compiled<exponential_10>("exp10f(x)"), Exact::exponential_10, -44.8F, 38.5F});
  all.push_back(
      {"10^x", compiled<fast_exponential_10>("__exp10f(x)"), Exact::exponential_10, -44.8F, 38.5F});
  all.push_back({"e^x", compiled<exponential>("expf(x)"), Exact::exponential, -103, 88.7F, true});
  all.push_back({"e^x", compiled<fast_exponential>("__expf(x)"), Exact::exponential, -103, 88.7F});
  all.push_back(
      {"logarithm", compiled<logarithm>("logf(x)"), Exact::logarithm, smallest, largest, true});
  all.push_back(
      {"logarithm", compiled<fast_logarithm>("__logf(x)"), Exact::logarithm, smallest, largest});
  all.push_back({"complement of erf", compiled<one_minus_erf>("1 - erff(x)"), Exact::complement,
                 smallest, 10, true});
  all.push_back(
      {"complement of erf", compiled<complement>("erfcf(x)"), Exact::complement, smallest, 10});
}

void add_products(std::vector<Case>& all) {
  const Function powf_of = compiled<power>("powf(x, n)");
  // The results are normal numbers.
  const auto add = [&](const char* topic, double n, float to, const Function& product) {
    all.push_back({topic, powf_of, Exact::power, 1 / to, to, true, n});
    all.push_back({topic, product, Exact::power, 1 / to, to, false, n});
  };
  add("x^2", 2, 0x1p62F, compiled<square>("x * x"));
  add("x^3", 3, 0x1p41F, compiled<cube>("x * x * x"));
  add("x^8", 8, 0x1p15F, compiled<eighth_power>("((x * x)^2)^2"));
  add("x^2.5", 2.5, 0x1p50F, compiled<fast_power>("__powf(x, n)"));
  const auto divide = [&](const Function& function, float from, float to, bool is_base = false) {
    all.push_back({"division", function, Exact::quotient, from, to, is_base, 0, Second::varied});
  };
  const Function fast = compiled<fast_quotient>("__fdividef(y, x)");
  divide(compiled<quotient>("y / x"), min_normal, 0x1p126F, true);
  divide(compiled<product_with_reciprocal>("y * (1 / x)"), min_normal, 0x1p126F);
  divide(fast, min_normal, 0x1p126F);
  divide(named(fast, "__fdividef, large x"), 0x1p126F, largest);
  const auto compare = [&](const char* topic, const Function& plain, const Function& other,
                           Exact exact) {
    all.push_back({topic, plain, exact, smallest, 0x1p126F, true});
    all.push_back({topic, other, exact, smallest, 0x1p126F});
  };
  compare("x / 3", compiled<third>("x / 3"), compiled<product_with_third>("x * (1.0f / 3)"),
          Exact::third);
  compare("constants", compiled<double_line>("1.1 * x + 0.3"),
          compiled<float_line>("1.1f * x + 0.3f"), Exact::line);
}

void add_roots(std::vector<Case>& all) {
  const auto add = [&](const char* topic, double p, const Function& plain,
                       const Function& replacement) {
    all.push_back({topic, plain, Exact::power, smallest, largest, true, p});
    all.push_back({topic, replacement, Exact::power, smallest, largest, false, p});
  };
  add("reciprocal root", -0.5, compiled<one_over_root>("1 / sqrtf(x)"),
      compiled<minus_half>("rsqrtf(x)"));
  add("reciprocal cube root", -1.0 / 3, compiled<one_over_cube_root>("1 / cbrtf(x)"),
      compiled<minus_third>("rcbrtf(x)"));
}

/// The 22 exponents of the Best Practices Guide. Results are normal numbers.
void add_fractional_exponents(std::vector<Case>& all) {
  const auto add = [&](int n, int d, const char* by_power, const Function& formula) {
    const bool is_steep = n > d || -n > d;
    const float from = is_steep ? 0x1p-83F : smallest, to = is_steep ? 0x1p83F : largest;
    const double p = static_cast<double>(n) / d;
    all.push_back({"fractional exponents", named(compiled<power>(""), by_power), Exact::power, from,
                   to, true, p});
    all.push_back({"fractional exponents", formula, Exact::power, from, to, false, p});
  };
  add(1, 9, "powf(x, 1/9)", compiled<ninth>("rcbrt(rcbrt(x))"));
  add(-1, 9, "powf(x, -1/9)", compiled<minus_ninth>("cbrt(rcbrt(x))"));
  add(1, 6, "powf(x, 1/6)", compiled<sixth>("rcbrt(rsqrt(x))"));
  add(-1, 6, "powf(x, -1/6)", compiled<minus_sixth>("rcbrt(sqrt(x))"));
  add(1, 4, "powf(x, 1/4)", compiled<quarter>("rsqrt(rsqrt(x))"));
  add(-1, 4, "powf(x, -1/4)", compiled<minus_quarter>("sqrt(rsqrt(x))"));
  add(1, 3, "powf(x, 1/3)", compiled<cube_root>("cbrt(x)"));
  add(-1, 3, "powf(x, -1/3)", compiled<minus_third>("rcbrt(x)"));
  add(1, 2, "powf(x, 1/2)", compiled<half>("sqrt(x)"));
  add(-1, 2, "powf(x, -1/2)", compiled<minus_half>("rsqrt(x)"));
  add(2, 3, "powf(x, 2/3)", compiled<two_thirds>("cbrt(x)^2"));
  add(-2, 3, "powf(x, -2/3)", compiled<minus_two_thirds>("rcbrt(x)^2"));
  add(3, 4, "powf(x, 3/4)", compiled<three_quarters>("r*sqrt(r), r=sqrt(x)"));
  add(-3, 4, "powf(x, -3/4)", compiled<minus_three_quarters>("r*sqrt(r), r=rsqrt(x)"));
  add(7, 6, "powf(x, 7/6)", compiled<seven_sixths>("x*rcbrt(rsqrt(x))"));
  add(-7, 6, "powf(x, -7/6)", compiled<minus_seven_sixths>("1/x*rcbrt(sqrt(x))"));
  add(5, 4, "powf(x, 5/4)", compiled<five_quarters>("x*rsqrt(rsqrt(x))"));
  add(-5, 4, "powf(x, -5/4)", compiled<minus_five_quarters>("1/x*sqrt(rsqrt(x))"));
  add(4, 3, "powf(x, 4/3)", compiled<four_thirds>("x*cbrt(x)"));
  add(-4, 3, "powf(x, -4/3)", compiled<minus_four_thirds>("1/x*rcbrt(x)"));
  add(3, 2, "powf(x, 3/2)", compiled<three_halves>("x*sqrt(x)"));
  add(-3, 2, "powf(x, -3/2)", compiled<minus_three_halves>("1/x*rsqrt(x)"));
}

/// The rows of a function with all flags that change it.
struct FlaggedRow {
  Flagged which;
  Exact exact;
  float from, to;
  double p = 0;
  Second second = Second::fixed;
};
constexpr FlaggedRow flagged_rows[] = {
    {Flagged::quotient, Exact::quotient, min_normal, largest, 0, Second::varied},
    {Flagged::reciprocal, Exact::power, smallest, largest, -1},
    {Flagged::root, Exact::power, smallest, largest, 0.5},
    {Flagged::reciprocal_root, Exact::power, smallest, largest, -0.5},
    {Flagged::sine, Exact::sine, smallest, pi},
    {Flagged::cosine, Exact::cosine, smallest, pi},
    {Flagged::tangent, Exact::tangent, smallest, 1.57F},
    {Flagged::exponential, Exact::exponential, -103, 88.7F},
    {Flagged::exponential_2, Exact::exponential_2, -149, 127.99F},
    {Flagged::exponential_10, Exact::exponential_10, -44.8F, 38.5F},
    {Flagged::logarithm, Exact::logarithm, smallest, largest},
    {Flagged::logarithm_2, Exact::logarithm_2, smallest, largest},
    {Flagged::logarithm_10, Exact::logarithm_10, smallest, largest},
    {Flagged::power, Exact::power, 0x1p-50F, 0x1p50F, 2.5},
};

}  // namespace

std::vector<Case> flagged_cases() {
  struct Set {
    const char* name;
    std::vector<FlaggedFunction> functions;
  };
  const Set sets[] = {{"default flags", flagged_functions<Flags::defaults>()},
                      {"-ftz=true", flagged_functions<Flags::ftz>()},
                      {"-prec-div=false", flagged_functions<Flags::prec_div>()},
                      {"-prec-sqrt=false", flagged_functions<Flags::prec_sqrt>()},
                      {"-use_fast_math", flagged_functions<Flags::fast_math>()}};
  std::vector<Case> all;
  for (const FlaggedRow& row : flagged_rows) {
    for (const Set& set : sets) {
      for (const auto& [which, function] : set.functions) {
        if (which != row.which) continue;
        all.push_back({function.name + std::string(", by flags"), function, row.exact, row.from,
                       row.to, &set == sets, row.p, row.second});
        all.back().function.name = set.name;
      }
    }
  }
  return all;
}

std::vector<Case> plain_cases() {
  std::vector<Case> all;
  add_trigonometry(all);
  add_exponentials(all);
  add_products(all);
  add_roots(all);
  return all;
}

std::vector<Case> exponent_cases() {
  std::vector<Case> all;
  add_fractional_exponents(all);
  return all;
}

}  // namespace shardstream::experiments::instructions
