#include "workloads/gram/gram.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "workloads/product/product.hpp"

namespace shardstream::workloads {
namespace {

constexpr std::array rows = {
    OptionRow{"gram.of", OptionKind::choice, "columns", "columns|rows",
              "Whether the variables are the columns of the data (each row is a sample) or the "
              "rows (each column is a sample)."},
    OptionRow{"gram.center", OptionKind::flag, "false", "",
              "Whether each variable's mean is subtracted: C is then the covariance matrix. "
              "covariance and correlation always subtract it."},
    OptionRow{"gram.scale", OptionKind::flag, "false", "",
              "Whether each variable is divided by its standard deviation, or without gram.center "
              "by its root mean square. With gram.center C is the correlation matrix. correlation "
              "always divides, covariance never."},
    OptionRow{"gram.divisor", OptionKind::choice, "auto", "auto|1|n|n-1",
              "The number that the sums of products are divided by; n is the number of samples. "
              "auto is n-1 if the data are centred or scaled, else 1. With gram.scale C is the "
              "same for all values."},
    OptionRow{"gram.rows", OptionKind::count, "4096", "1..", "Rows of generated data."},
    OptionRow{"gram.columns", OptionKind::count, "4096", "1..", "Columns of generated data."},
};

/// gram.divisor, with auto resolved: "1", "n" or "n-1".
std::string chosen_divisor(const Options& options, const product::Operands& operands) {
  if (!options.is_auto("gram.divisor")) return options.text("gram.divisor");
  return operands.center || operands.scale ? "n-1" : "1";
}

double divisor(const std::string& requested, const product::Operands& operands) {
  if (requested == "1") return 1;
  const auto samples = static_cast<double>(operands.k);
  if (requested == "n") return samples;
  if (operands.k > 1) return samples - 1;
  throw UsageError(fmt::format(
      "{}, so there is only one sample, and gram.divisor n-1 is 0: pass --gram.divisor n or 1",
      product::extents(*operands.a)));
}

/// How each variable is normalized.
struct Normalizes {
  bool center, scale;
};

/// Returns `wanted`. Throws UsageError if an option requests something else.
Normalizes fixed(const Options& options, const Normalizes& wanted) {
  const auto check = [&](std::string_view key, bool value) {
    if (options.is_default(key) || options.flag(key) == value) return;
    throw UsageError(
        fmt::format("{} is {}, but {} always has {} {}: leave the option out, or run gram", key,
                    options.text(key), options.text("run.workload"), key, value));
  };
  check("gram.center", wanted.center);
  check("gram.scale", wanted.scale);
  return wanted;
}

/// A warning if a file has more variables than samples, as transposed data do; else nothing.
std::vector<std::string> warnings_of(const product::Operands& operands) {
  if (operands.n <= operands.k || operands.a->origin().files.empty()) return {};
  const std::uint64_t element = gemm::accumulator_bytes(operands.precision);
  const char* const side = operands.transpose_a ? "rows" : "columns";
  return {
      fmt::format("{}, but only {}, so C has {}: if the {} of the data set are the variables, pass "
                  "--gram.of {}",
                  counted(operands.n, "variable"), counted(operands.k, "sample"),
                  format_size(saturating_product({operands.m, operands.n, element})), side, side)};
}

product::Operands open_data(const Options& options, const Normalizes& normalizes) {
  product::Operands operands;
  constexpr std::array<std::string_view, 1> data = {"input.data"};
  operands.precision = product::precision_of(options, data);
  operands.symmetric = true;
  operands.center = normalizes.center;
  operands.scale = normalizes.scale;
  operands.transpose_a = options.text("gram.of") == "columns";
  operands.transpose_b = !operands.transpose_a;
  for (auto* matrix : {&operands.a, &operands.b}) {
    *matrix = product::open_operand(options, operands.precision, "input.data",
                                    options.count("gram.rows"), options.count("gram.columns"));
  }
  for (const char* const size : {"gram.rows", "gram.columns"}) {
    product::reject_size_of_file(options, size, "input.data");
  }
  const io::Matrix& a = *operands.a;
  operands.m = operands.n = operands.transpose_a ? a.columns() : a.rows();
  operands.k = operands.transpose_a ? a.rows() : a.columns();
  const std::string chosen = chosen_divisor(options, operands);
  operands.alpha = 1 / divisor(chosen, operands);
  const auto yes = [](bool flag) { return std::string(flag ? "true" : "false"); };
  operands.resolved = {{"gram.divisor", chosen},
                       {"input.rows", std::to_string(a.rows())},
                       {"gram.center", yes(operands.center)},
                       {"gram.scale", yes(operands.scale)}};
  if (operands.center) operands.warnings = warnings_of(operands);
  return operands;
}

/// The work is linear in the number of samples.
Scaled scaled_gram(const Options& options, double factor, std::string_view) {
  const bool samples_are_rows = options.text("gram.of") == "columns";
  if (!io::names_file(options, "input.data")) {
    return scaled_count(options, samples_are_rows ? "gram.rows" : "gram.columns", factor);
  }
  if (samples_are_rows) return scaled_rows(options, factor);
  throw UsageError(
      "gram.of is rows, so the samples are the columns of a file, which cannot grow in a weak "
      "scaling study: store each sample as a row");
}

/// `gram` with centred variables, which are scaled too if `scaled`.
template <bool scaled>
Workload centred_workload(std::string_view name, std::string_view summary,
                          std::string_view example) {
  Workload workload = gram_workload();
  workload.name = name;
  workload.summary = summary;
  workload.example = example;
  workload.open = [](const Options& options) {
    return product::open_task(
        "gram", options, open_data(options, fixed(options, {.center = true, .scale = scaled})));
  };
  return workload;
}

}  // namespace

product::Operands open_gram(const Options& options) {
  return open_data(options, {options.flag("gram.center"), options.flag("gram.scale")});
}

Workload gram_workload() {
  return {.name = "gram",
          .summary = "a matrix times its transpose, C = X^T X",
          .example = "--input.data samples.h5:/X -o gram.h5",
          .options = {product::option_rows(), rows},
          .honours = {"input.data", "input.rows", "measure.rates", "output.resume", "output.store"},
          .data = {"input.data"},
          .sizes = {"gram.rows", "gram.columns"},
          .open =
              [](const Options& options) {
                return product::open_task("gram", options, open_gram(options));
              },
          .grows = {"samples"},
          .scaled = scaled_gram};
}

Workload covariance_workload() {
  return centred_workload<false>("covariance",
                                 "the covariance matrix of a data set's variables: gram, centred",
                                 "--input.data samples.h5:/X -o covariance.h5");
}

Workload correlation_workload() {
  return centred_workload<true>(
      "correlation", "the correlation matrix of a data set's variables: gram, centred and scaled",
      "--input.data samples.h5:/X -o correlation.h5");
}

}  // namespace shardstream::workloads
