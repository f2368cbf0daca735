#include "workloads/gram/gram.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "workloads/gram/gram_weights.hpp"
#include "workloads/product/described_variables.hpp"
#include "workloads/product/engine/normalization/samples.hpp"
#include "workloads/product/product.hpp"

namespace shardstream::workloads {
namespace {

constexpr std::array gram_rows = {
    OptionRow{"gram.of", OptionKind::choice, "columns", "columns|rows",
              "Whether the variables are the columns of the data (each row is a sample) or the "
              "rows (each column is a sample)."},
    OptionRow{
        "gram.samples", OptionKind::text, "", "name or number",
        "The dimension whose indices are the samples, by its name or its number (from 0). All "
        "other dimensions together are the variables. By default it is the first one; with "
        "gram.of rows, the variables are the indices of the first one."},
    OptionRow{"gram.center", OptionKind::flag, "false", "",
              "Whether each variable's mean is subtracted: C is then the covariance matrix. "
              "covariance and correlation always subtract it."},
    OptionRow{
        "gram.center-over", OptionKind::choice, "samples", "samples|variables",
        "The mean that gram.center subtracts: that of each variable over the samples, or that "
        "of each sample over the variables, as for a principal component analysis by "
        "snapshots."},
    OptionRow{"gram.scale", OptionKind::flag, "false", "",
              "Whether each variable is divided by its standard deviation, or without gram.center "
              "by its root mean square. With gram.center C is the correlation matrix. correlation "
              "always divides, covariance never."},
    OptionRow{
        "gram.divisor", OptionKind::choice, "auto", "auto|1|n|n-1",
        "The number that the sums of products are divided by; n is the number of samples. With "
        "weights of samples, n is their sum V1, and n-1 is V1 - V2 / V1 with the sum V2 of their "
        "squares. With gram.center-over variables, n is the number of variables. "
        "auto is n-1 if the data are centred or scaled, else 1. With gram.scale C is the "
        "same for all values."},
    OptionRow{"gram.missing", OptionKind::choice, "propagate", "propagate|complete|pairwise",
              "Missing values: propagate makes the rows and columns of C that they belong to NaN; "
              "complete leaves out samples with a missing value, after variables without any value "
              "are set aside; pairwise computes each element of "
              "C from the samples in which both variables have a value."},
    OptionRow{"gram.weights", OptionKind::text, "", "such as area.h5:/weight",
              "A data set with a weight for each sample or for each variable. A sample counts as "
              "much as its weight. A variable is multiplied by the root of its weight, after "
              "centring and scaling."},
    OptionRow{
        "gram.weight-of", OptionKind::choice, "auto", "auto|samples|variables",
        "Whether gram.weights are weights of samples or of variables; auto follows from their "
        "names and lengths."},
    OptionRow{"gram.rows", OptionKind::count, "4096", "1..", "Rows of generated data."},
    OptionRow{"gram.columns", OptionKind::count, "4096", "1..", "Columns of generated data."},
};

/// gram.divisor, with auto resolved: "1", "n" or "n-1".
std::string chosen_divisor(const Options& options, const product::Operands& operands) {
  if (!options.is_auto("gram.divisor")) return options.text("gram.divisor");
  return operands.shifts() || operands.scale ? "n-1" : "1";
}

/// Integers are never missing.
product::Missing missing_of(const Options& options, ElementType type) {
  const std::string& name = options.text("gram.missing");
  const bool can_be_missing = type == ElementType::f32 || type == ElementType::f64;
  if (name == "complete" && can_be_missing) return product::Missing::complete;
  return name == "pairwise" ? product::Missing::pairwise : product::Missing::propagate;
}

product::Divisor divisor_named(const std::string& name) {
  if (name == "1") return product::Divisor::one;
  return name == "n" ? product::Divisor::n : product::Divisor::n_minus_1;
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

/// Whether means of samples are subtracted. Throws UsageError if gram.center-over does not fit the
/// other options.
bool centers_over_variables(const Options& options, const Normalizes& normalizes) {
  if (options.text("gram.center-over") != "variables") return false;
  if (normalizes.scale) {
    throw UsageError(
        "gram.center-over is variables, and variables that are scaled are centred over the "
        "samples: leave one of gram.center-over and gram.scale out, or run covariance");
  }
  if (normalizes.center) return true;
  throw UsageError(
      "gram.center-over is variables, but gram.center is false: pass --gram.center true, or leave "
      "gram.center-over out");
}

/// A warning if a file has more variables than samples, as transposed data do; else nothing. The
/// user who passes gram.samples knows the samples.
std::vector<std::string> warnings_of(const Options& options, const product::Operands& operands) {
  if (operands.n <= operands.k || operands.a->origin().files.empty()) return {};
  if (!options.text("gram.samples").empty()) return {};
  const std::uint64_t element = gemm::accumulator_bytes(operands.precision);
  const std::string sizes =
      fmt::format("{}, but only {}, so C has {}", counted(operands.n, "variable"),
                  counted(operands.k, "sample"),
                  format_size(saturating_product({operands.m, operands.n, element})));
  const io::Source& source = operands.a->source();
  if (source.shape().size() > 2) {
    return {fmt::format(
        "{}: the {} are the indices of {}; if samples are those of another dimension, pass "
        "--gram.samples with its name or number",
        sizes, operands.transpose_a ? "samples" : "variables",
        product::names_of_dimensions(source, operands.a->dimensions().rows, " x "))};
  }
  const char* const side = operands.transpose_a ? "rows" : "columns";
  return {fmt::format("{}: if the {} of the data set are the variables, pass --gram.of {}", sizes,
                      side, side)};
}

/// The arrangement of data whose samples are the indices of dimension `samples`. If this is the
/// last dimension, its elements are adjacent in a file, so the samples are the columns.
io::MatrixDimensions arrange_samples(const io::Source& source, std::size_t samples) {
  io::MatrixDimensions made = io::one_and_others(source, samples);
  if (!made.columns.empty() && samples > made.columns.back()) std::swap(made.rows, made.columns);
  return made;
}

/// The dimension that gram.samples names.
std::size_t find_samples(const io::Source& source, const std::string& samples) {
  try {
    return io::find_dimension(source, samples);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("gram.samples: {}", error.what()));
  }
}

/// The dimensions of the matrix: the first and all others, unless gram.samples is given.
io::MatrixDimensions arrange(const Options& options, const io::Source& source) {
  const std::string& samples = options.text("gram.samples");
  if (!samples.empty()) return arrange_samples(source, find_samples(source, samples));
  const std::vector<std::size_t> kept = io::kept_dimensions(source);
  return kept.empty() ? io::MatrixDimensions{} : io::one_and_others(source, kept[0]);
}

/// Whether each row of the matrix is a sample.
bool samples_are_rows(const Options& options, const io::Matrix& matrix) {
  const std::string& samples = options.text("gram.samples");
  if (samples.empty()) return options.text("gram.of") == "columns";
  if (!options.is_default("gram.of")) {
    throw UsageError(
        "gram.samples and gram.of both say which dimension has the samples: give one of them");
  }
  return matrix.dimensions().rows == std::vector{find_samples(matrix.source(), samples)};
}

product::Operands open_data(const Options& options, const Normalizes& normalizes) {
  product::Operands operands;
  constexpr std::array<std::string_view, 1> data = {"input.data"};
  operands.precision = product::precision_of(options, data);
  operands.moduli = product::moduli_of(options, operands.precision);
  operands.symmetric = true;
  operands.scale = normalizes.scale;
  operands.center_over_variables = centers_over_variables(options, normalizes);
  operands.center = normalizes.center && !operands.center_over_variables;
  for (auto* matrix : {&operands.a, &operands.b}) {
    *matrix =
        product::open_operand(options, operands.precision, "input.data", options.count("gram.rows"),
                              options.count("gram.columns"),
                              [&](const io::Source& source) { return arrange(options, source); });
  }
  operands.transpose_a = samples_are_rows(options, *operands.a);
  operands.transpose_b = !operands.transpose_a;
  for (const char* const size : {"gram.rows", "gram.columns"}) {
    product::reject_size_of_file(options, size, "input.data");
  }
  const io::Matrix& a = *operands.a;
  operands.m = operands.n = operands.transpose_a ? a.columns() : a.rows();
  operands.k = operands.transpose_a ? a.rows() : a.columns();
  operands.missing = missing_of(options, a.type());
  operands.weights = open_weights(options, operands);
  const std::string chosen = chosen_divisor(options, operands);
  operands.divisor = divisor_named(chosen);
  operands.alpha = product::alpha_of_all(operands);
  if (operands.pairwise()) operands.alpha = 1;  // each pair has its own divisor
  const auto yes = [](bool flag) { return std::string(flag ? "true" : "false"); };
  operands.resolved = {{"gram.divisor", chosen},
                       {"input.rows", std::to_string(a.source().shape()[0])},
                       {"gram.center", yes(operands.shifts())},
                       {"gram.scale", yes(operands.scale)}};
  if (operands.weights) {
    const bool of_samples = operands.weights->of == product::Weights::Of::samples;
    operands.resolved.emplace_back("gram.weight-of", of_samples ? "samples" : "variables");
  }
  if (operands.center) operands.warnings = warnings_of(options, operands);
  return operands;
}

/// The work is linear in the number of samples.
Scaled scaled_gram(const Options& options, double factor, std::string_view) {
  const product::Operands operands = open_gram(options);
  if (!operands.weights_of(product::Weights::Of::samples).empty()) {
    throw UsageError(fmt::format(
        "gram.weights names {}, a weight for each sample, and a weak scaling study grows the "
        "samples: leave gram.weights out, or study strong scaling",
        operands.weights->name));
  }
  const io::MatrixDimensions& of = operands.a->dimensions();
  const std::vector<std::size_t>& samples = operands.transpose_a ? of.rows : of.columns;
  if (!io::names_file(options, "input.data")) {
    return scaled_count(options, operands.transpose_a ? "gram.rows" : "gram.columns", factor);
  }
  if (samples == std::vector{io::kept_dimensions(operands.a->source())[0]}) {
    return scaled_rows(options, factor);
  }
  throw UsageError(
      "the samples are not the first dimension of the file, which alone can grow in a weak "
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
          .options = {product::option_rows(), gram_rows},
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
