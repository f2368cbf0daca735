#include "workloads/gram.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "workloads/moments.hpp"
#include "workloads/product.hpp"

namespace shardstream::workloads {
namespace {

constexpr std::array rows = {
    OptionRow{"gram.of", OptionKind::choice, "columns", "columns|rows",
              "Which are the variables that are multiplied with one another: columns of input.a, "
              "with a sample a row, or rows."},
    OptionRow{"gram.center", OptionKind::flag, "false", "",
              "Whether each variable's mean, found in a first pass over the data, is taken off it: "
              "C is then the covariance matrix."},
    OptionRow{"gram.scale", OptionKind::flag, "false", "",
              "Whether each variable is divided by its deviation, found likewise: with gram.center "
              "C is the correlation matrix."},
    OptionRow{"gram.divisor", OptionKind::choice, "auto", "auto|1|n|n-1",
              "What the sums of products, and of squares for a deviation, are divided by, n being "
              "the number of samples; auto is n-1 where the data are centred or scaled, else 1."},
    OptionRow{"gram.rows", OptionKind::count, "4096", "1..",
              "Rows of input.a, where it is generated."},
    OptionRow{"gram.columns", OptionKind::count, "4096", "1..",
              "Columns of input.a, where it is generated."},
};

void refuse_sizes_of_files(const Options& options) {
  if (!io::names_file(options, "input.a")) return;
  for (const char* const size : {"gram.rows", "gram.columns"}) {
    if (!options.is_on_command_line(size)) continue;
    throw UsageError(fmt::format(
        "{} is for a generated matrix, and input.a is a data set that has its own size: leave it "
        "out",
        size));
  }
}

/// Of gram.divisor; "1", "n" or "n-1".
std::string chosen_divisor(const Options& options, const GemmOperands& operands) {
  if (!options.is_auto("gram.divisor")) return options.text("gram.divisor");
  return operands.center || operands.scale ? "n-1" : "1";
}

double divisor(const std::string& wish, const GemmOperands& operands) {
  if (wish == "1") return 1;
  const auto samples = static_cast<double>(operands.k);
  if (wish == "n") return samples;
  if (operands.k > 1) return samples - 1;
  throw UsageError(
      fmt::format("{}, which is one sample, and gram.divisor is n-1, which is 0: pass "
                  "--gram.divisor n or 1",
                  extents(*operands.a)));
}

}  // namespace

std::span<const OptionRow> gram_options() {
  return rows;
}

GemmOperands open_gram(const Options& options) {
  GemmOperands operands;
  operands.precision = precision_of(options);
  operands.symmetric = true;
  operands.center = options.flag("gram.center");
  operands.scale = options.flag("gram.scale");
  operands.transpose_a = options.text("gram.of") == "columns";
  operands.transpose_b = !operands.transpose_a;
  for (auto* matrix : {&operands.a, &operands.b}) {
    *matrix =
        open_operand(options, "input.a", options.count("gram.rows"), options.count("gram.columns"));
  }
  refuse_sizes_of_files(options);
  const io::Matrix& a = *operands.a;
  operands.m = operands.n = operands.transpose_a ? a.columns() : a.rows();
  operands.k = operands.transpose_a ? a.rows() : a.columns();
  const std::string chosen = chosen_divisor(options, operands);
  operands.alpha = 1 / divisor(chosen, operands);
  operands.resolved.emplace_back("gram.divisor", chosen);
  return operands;
}

Normalization normalization(const GemmOperands& operands, const Moments& moments) {
  Normalization made;
  if (operands.center) made.shift = moments.means();
  if (!operands.scale) return made;
  for (const double squares : operands.center ? moments.squares() : moments.raw_squares()) {
    const double deviation = std::sqrt(squares * operands.alpha);
    made.constant += deviation == 0 ? 1 : 0;
    // An infinite one is of squares beyond doubles, and not the variable's.
    const double nan = std::numeric_limits<double>::quiet_NaN();
    made.scale.push_back(deviation == 0 ? 0 : std::isinf(deviation) ? nan : 1 / deviation);
  }
  return made;
}

}  // namespace shardstream::workloads
