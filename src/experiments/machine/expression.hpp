// A user's expression of x as a kernel: the source for NVRTC, what NVRTC reports about it, and the
// functions that the host can compute, too. Text and arithmetic only; nvrtc.hpp compiles.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardstream::experiments::machine {

inline constexpr std::string_view default_expression = "sqrt(x*x+1)";

/// Throws UsageError unless `expression` is one line of printable ASCII characters, at most 4096
/// and not all blank. Whether it is an expression is for the compiler to say.
void check_expression(std::string_view expression);

/// The name of the kernel in kernel_source().
inline constexpr const char* kernel_name = "map";
/// CUDA C++ with the kernel map(const float* from, float* to, unsigned long long count), which
/// stores the value of `expression` for x = from[i] in to[i]. Any grid of one dimension will do.
std::string kernel_source(std::string_view expression);

/// An error that the compiler has found in an expression.
struct Complaint {
  /// In the expression, from 1; one more than its length if the error is after its end; 0 if it
  /// concerns the whole expression.
  std::size_t column = 0;
  std::string text;
};
/// The first error in the log of NVRTC for kernel_source(expression).
Complaint first_complaint(std::string_view log, std::string_view expression);
/// The sentence for the user, which names the option.
std::string sentence_on(const Complaint& complaint, std::string_view expression);

/// An expression whose value the host knows in double precision.
struct KnownFunction {
  std::string_view expression;
  double (*exact)(double x);
  /// The largest error of the kernel in units in the last place (ulp), for |x| <= 4.
  double max_error;
};
/// Null if `expression` is not known. Blanks do not count.
const KnownFunction* find_known(std::string_view expression);
/// Whether two expressions differ in blanks at most.
bool same_expression(std::string_view a, std::string_view b);

}  // namespace shardstream::experiments::machine
