#include "workloads/product/verdict.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string_view>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::workloads::product {
namespace {

/// The step that follows the check of a tile and is not checked, as the end of a sentence.
std::string last_step(const Operands& operands) {
  if (operands.pairwise()) return ", before C is computed from the sums of the pairs";
  if (operands.normalizes()) return ", before the corrections for means and scales";
  if (operands.alpha == 1 && operands.beta == 0) return {};
  return operands.symmetric ? ", before the division by gram.divisor"
                            : ", before alpha and beta are applied";
}

/// The largest number of C's type, with its name.
std::string largest_of(gemm::Precision precision) {
  return gemm::accumulator_type(precision) == ElementType::f64 ? "the largest f64, 1.8e308"
                                                               : "the largest f32, 3.4e38";
}

/// The reason why rows of C could not be checked, with the remedy.
std::string unchecked_reason(const Operands& operands, const std::optional<NotFinite>& first) {
  if (first) {
    const bool propagates = std::isnan(first->value) && operands.missing == Missing::propagate;
    return fmt::format(
        "{} has values that are not finite: the first one is {}, at [{}]{}", operands.a->name(),
        std::isnan(first->value) ? std::string("NaN") : fmt::format("{}", first->value),
        join(operands.a->coordinates(first->row, first->column), ", "),
        propagates ? "; to leave out missing values, pass --gram.missing complete or pairwise"
                   : "");
  }
  const bool widest = gemm::accumulator_type(operands.precision) == ElementType::f64;
  const gemm::PrecisionTraits& row = gemm::traits_of(operands.precision);
  const std::string_view largest = gemm::traits_of(row.panel).largest;
  return fmt::format(
      "A or B has values there that are NaN, infinite{}, or that have squares or products too "
      "small or too large for {}{}{}",
      largest.empty() ? "" : fmt::format(" or beyond {}'s {}", row.name, largest),
      word_of(row.accumulator),
      operands.symmetric ? ""
                         : "; to find the first NaN of a data set, run shardstream run reduce "
                           "--reduce.missing error",
      widest ? "; if values are beyond 1e154, scale the data down"
             : "; if values are too small or too large, pass --product.precision fp64");
}

/// The reasons why rows are not verified, each with the number of rows and the remedy.
std::string reasons_of(const Agreed& agreed, const Operands& operands,
                       const std::optional<NotFinite>& not_finite) {
  std::string reasons;
  const auto add = [&](std::uint64_t rows, const std::string& reason) {
    if (rows == 0) return;
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", counted(rows, "row"), reason);
  };
  const bool widest = gemm::accumulator_type(operands.precision) == ElementType::f64;
  const char* const smaller =
      widest ? "scale the data down" : "pass --product.precision fp64, or scale the data down";
  add(agreed.unchecked - agreed.overflowed, unchecked_reason(operands, not_finite));
  add(agreed.overflowed,
      fmt::format("A and B are finite, but sums of their products overflow, beyond {}; {}",
                  largest_of(operands.precision), smaller));
  add(agreed.infinite,
      fmt::format("the check has passed, but C overflows in the last step ({}), beyond {}; {}",
                  operands.normalizes() ? "the removal of the scales"
                  : operands.symmetric  ? "gram.divisor"
                                        : "gemm.alpha and gemm.beta",
                  largest_of(operands.precision), smaller));
  return reasons;
}

}  // namespace

std::string verdict_of(const Agreed& agreed, const Operands& operands,
                       const std::optional<NotFinite>& not_finite) {
  switch (agreed.verification()) {
    case Verification::failed:
      return agreed.failure;
    case Verification::unchecked:
      return fmt::format("none of the {} of C's tiles could be verified: {}",
                         counted(agreed.rows, "row"), reasons_of(agreed, operands, not_finite));
    case Verification::partly:
      return fmt::format(
          "{} of {} of C's tiles could not be verified: {}; all others have passed, with "
          "max_error {:.2g}{}",
          agreed.unverified(), counted(agreed.rows, "row"),
          reasons_of(agreed, operands, not_finite), agreed.worst, last_step(operands));
    case Verification::passed:
      return fmt::format(
          "every row of each tile of C has passed its check, with max_error {:.2g}{}", agreed.worst,
          last_step(operands));
  }
  throw ContractError("unknown verification");
}

}  // namespace shardstream::workloads::product
