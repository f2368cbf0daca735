// Checks whether the precision, the options and the GPU allow a product.
#include <fmt/format.h>

#include <cstdint>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "pipeline/pipeline_options.hpp"
#include "workloads/product/product.hpp"

namespace shardstream::workloads::product {
namespace {

/// Throws UsageError if sums of integers cannot compute the product.
void check_integers(const Operands& operands) {
  const gemm::PrecisionTraits& row = gemm::traits_of(operands.precision);
  for (const io::Matrix* matrix : {operands.a.get(), operands.b.get()}) {
    if (gemm::takes(operands.precision, matrix->type())) continue;
    throw UsageError(fmt::format(
        "product.precision {0} needs data of type {1}, and {2} is {3}: pass --product.precision "
        "{4}, or --input.type {1} if all values are integers from -128 to 127",
        row.name, word_of(row.generated), matrix->name(), word_of(matrix->type()),
        word_of(safe_precision(matrix->type()))));
  }
  if (operands.k > row.max_terms) {
    throw UsageError(fmt::format(
        "product.precision {} adds in 32 bits, and sums of {} products can overflow (k may be at "
        "most {}): pass --product.precision fp32 or fp64, or split the matrices along k",
        row.name, operands.k, row.max_terms));
  }
  if (operands.alpha != 1 || operands.beta != 0 || operands.normalizes()) {
    throw UsageError(fmt::format(
        "product.precision {} stores integer sums, without alpha, beta, centring, scaling, weights "
        "and divisors: leave these out, or pass --product.precision fp32 or fp64",
        row.name));
  }
}

/// Throws UsageError if a pairwise product cannot be computed.
void check_pairwise(const Operands& operands) {
  const gemm::PrecisionTraits& row = gemm::traits_of(operands.precision);
  constexpr std::uint64_t exact_in_floats = 1 << 24;
  if (gemm::sums_integers(operands.precision)) {
    throw UsageError(fmt::format(
        "gram.missing is pairwise, but with product.precision {} no value can be missing: leave "
        "gram.missing out, or pass --product.precision fp32 or fp64",
        row.name));
  }
  if (row.accumulator == ElementType::f32 && operands.k > exact_in_floats) {
    throw UsageError(fmt::format(
        "gram.missing pairwise counts the samples of each pair, and product.precision {} counts "
        "only {} of the {} samples exactly: pass --product.precision fp64",
        row.name, exact_in_floats, operands.k));
  }
  if (operands.center_over_variables) {
    throw UsageError(
        "gram.missing is pairwise, and gram.center-over variables subtracts means of samples, "
        "which are not those of pairs: leave gram.center-over out, or pass --gram.missing "
        "complete");
  }
  if (operands.weights && (operands.weights->of == Weights::Of::samples || operands.scale)) {
    throw UsageError(fmt::format(
        "gram.missing pairwise cannot weigh samples, nor variables that are scaled, with {}: leave "
        "gram.weights out, or pass --gram.missing complete",
        operands.weights->name));
  }
  if (operands.scale && row.panel != gemm::Format::f32 && row.panel != gemm::Format::f64) {
    throw UsageError(fmt::format(
        "gram.missing pairwise multiplies the squares of scaled variables, which product.precision "
        "{} would round to few digits: pass --product.precision fp32, fp32x3 or fp64",
        row.name));
  }
}

}  // namespace

void check_operands(const Operands& operands) {
  if (saturating_product(saturating_product(operands.m, operands.n),
                         gemm::accumulator_bytes(operands.precision)) > INT64_MAX) {
    throw UsageError(fmt::format("C is {} x {} and has more than 2^63 bytes: choose smaller sizes",
                                 operands.m, operands.n));
  }
  if (gemm::sums_integers(operands.precision)) check_integers(operands);
  if (operands.pairwise()) check_pairwise(operands);
  if (operands.shifts() && operands.a->type() == ElementType::u64) {
    throw UsageError(fmt::format(
        "means cannot be subtracted from {}, which is u64, without rounding: pass --input.type i64 "
        "if all values are below 2^63, or f64",
        operands.a->name()));
  }
}

void check_units(gemm::Precision precision, int compute_capability) {
  if (gemm::has_units(precision, compute_capability)) return;
  const gemm::PrecisionTraits& row = gemm::traits_of(precision);
  throw UsageError(fmt::format(
      "product.precision {} needs a GPU of compute capability {:.1f} or above, and this GPU has "
      "{:.1f}: pass --product.precision {}",
      row.name, row.compute_capability / 10.0, compute_capability / 10.0,
      row.accumulator == ElementType::f64 ? "fp64" : "fp32"));
}

void check_mode(const Options& options) {
  const pipeline::Mode mode = pipeline::mode(options);
  if (mode != pipeline::Mode::mapped && mode != pipeline::Mode::resident) return;
  throw UsageError(
      fmt::format("a matrix product cannot run with pipeline.mode {}, since its panels are "
                  "uploaded: pass --pipeline.mode stream, pageable, pinned or write-combined",
                  options.text("pipeline.mode")));
}

}  // namespace shardstream::workloads::product
