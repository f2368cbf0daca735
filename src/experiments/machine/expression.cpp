#include "experiments/machine/expression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::experiments::machine {
namespace {

constexpr std::string_view option = "runtime-compile.map";
/// The name of the user's text in messages of the compiler.
constexpr std::string_view file_of_expression = "expression";

/// The errors of sqrt(x*x+1): the product and the sum have relative errors of at most u = 2^-24
/// each. The root halves their sum to u, which is less than 1 ulp, and rounds: 0.5 ulp. The other
/// bounds but the first are those of the CUDA C++ Programming Guide, section Mathematical
/// Functions, from the rounded value, so that its rounding is added.
constexpr std::array known_functions = {
    KnownFunction{"x*x", [](double x) { return x * x; }, 0.5},
    KnownFunction{default_expression, [](double x) { return std::sqrt(x * x + 1); }, 1.5},
    KnownFunction{"sin(x)", [](double x) { return std::sin(x); }, 2.5},
    KnownFunction{"cos(x)", [](double x) { return std::cos(x); }, 2.5},
    KnownFunction{"exp(x)", [](double x) { return std::exp(x); }, 2.5},
    KnownFunction{"tanh(x)", [](double x) { return std::tanh(x); }, 2.5},
};

std::string without_blanks(std::string_view text) {
  std::string kept(text);
  std::erase(kept, ' ');
  return kept;
}

/// The line number of "expression(2)"; nothing for a place outside the expression.
std::optional<int> line_of_expression(std::string_view place) {
  if (!place.starts_with(file_of_expression)) return std::nullopt;
  place.remove_prefix(file_of_expression.size());
  int line = 0;
  if (!place.starts_with('(')) return std::nullopt;
  const auto [end, error] = std::from_chars(place.data() + 1, place.data() + place.size(), line);
  return error == std::errc() ? std::optional(line) : std::nullopt;
}

/// The column under which `lines`, the copy of the expression and the line below it, have a caret;
/// 0 if there is none.
std::size_t column_of_caret(const std::vector<std::string_view>& lines, std::size_t first,
                            std::string_view expression) {
  for (std::size_t i = first; i + 1 < lines.size() && !trim(lines[i]).empty(); ++i) {
    const std::size_t begin = lines[i].find(expression), caret = lines[i + 1].find('^');
    if (begin == lines[i].npos || trim(lines[i + 1]) != "^" || caret < begin) continue;
    return caret - begin + 1;
  }
  return 0;
}

/// The lines as they are: split() would remove their indentation.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

void check_expression(std::string_view expression) {
  constexpr std::size_t max_length = 4096;
  const auto is_printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (trim(expression).empty() || expression.size() > max_length ||
      !std::ranges::all_of(expression, is_printable)) {
    throw UsageError(
        fmt::format("--{} is {}, which is not an expression in one line of 1 to {} printable ASCII "
                    "characters: write for example \"{}\"",
                    option, excerpt(expression), max_length, default_expression));
  }
}

std::string kernel_source(std::string_view expression) {
  return fmt::format(R"(__device__ float value_of_expression(float x) {{
  return static_cast<float>(
#line 1 "{}"
{}
);
}}
extern "C" __global__ void {}(const float* from, float* to, unsigned long long count) {{
  const unsigned long long step = gridDim.x * static_cast<unsigned long long>(blockDim.x);
  for (unsigned long long i = blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x;
       i < count; i += step) {{
    to[i] = value_of_expression(from[i]);
  }}
}}
)",
                     file_of_expression, expression, kernel_name);
}

Complaint first_complaint(std::string_view log, std::string_view expression) {
  constexpr std::string_view mark = "error";
  const std::vector<std::string_view> lines = lines_of(log);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    // "expression(1): error: identifier ...", "expression(1): catastrophic error: ..."
    const std::size_t found = lines[i].find(mark);
    const std::size_t colon = found == lines[i].npos ? found : lines[i].find(": ", found);
    if (colon == lines[i].npos) continue;
    Complaint complaint{.text = std::string(trim(lines[i].substr(colon + 2)))};
    const auto line = line_of_expression(lines[i]);
    if (line == 1) complaint.column = column_of_caret(lines, i + 1, expression);
    if (line.value_or(0) > 1) complaint.column = expression.size() + 1;
    return complaint;
  }
  return {.text = "it does not compile"};
}

std::string sentence_on(const Complaint& complaint, std::string_view expression) {
  std::string place;
  if (complaint.column > expression.size()) {
    place = ", at its end";
  } else if (complaint.column > 0) {
    place = fmt::format(", column {}", complaint.column);
  }
  return fmt::format("--{} {}{}: {}; write an expression of x, a float, in CUDA C++", option,
                     excerpt(expression), place, printable(complaint.text));
}

bool same_expression(std::string_view a, std::string_view b) {
  return without_blanks(a) == without_blanks(b);
}

const KnownFunction* find_known(std::string_view expression) {
  const auto* const found = std::ranges::find_if(known_functions, [&](const auto& each) {
    return same_expression(each.expression, expression);
  });
  return found == known_functions.end() ? nullptr : found;
}

}  // namespace shardstream::experiments::machine
