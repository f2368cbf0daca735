#include "workloads/product/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "kernels/data/stored_value.hpp"
#include "workloads/product/plan/description.hpp"

namespace shardstream::workloads::product {
namespace {

std::int64_t integer(std::uint64_t x) {
  return static_cast<std::int64_t>(x);
}

/// Flop of a tile's products, without padding.
double flops_of(const FinishedTile& tile, const Plan& plan) {
  const Problem& problem = plan.problem();
  const std::uint64_t row = tile.tile / plan.shape.tile_columns,
                      column = tile.tile % plan.shape.tile_columns;
  const Range rows = elements_of({row, 1}, problem.tile.m, problem.m);
  const Range columns = elements_of({column, 1}, problem.tile.n, problem.n);
  return 2.0 * static_cast<double>(rows.count) * static_cast<double>(columns.count) *
         static_cast<double>(problem.k);
}

/// The rows of all computed tiles.
std::uint64_t rows_of_tiles(const Plan& plan) {
  const Problem& problem = plan.problem();
  std::uint64_t rows = 0;
  for (std::uint64_t row = 0; row < plan.shape.tile_rows; ++row) {
    rows += elements_of({row, 1}, problem.tile.m, problem.m).count *
            plan.shape.count_tiles({{row, 1}, {0, plan.shape.tile_columns}});
  }
  return rows;
}

/// The value of `of` for each operand, separated by commas; a single value if all are the same.
template <class Of>
std::string of_all(const Operands& operands, const Of& of) {
  std::vector<std::string_view> values;
  for (const auto* matrix : {operands.a.get(), operands.b.get(), operands.c.get()}) {
    if (matrix != nullptr) values.push_back(of(*matrix));
  }
  const bool same =
      std::ranges::all_of(values, [&](const auto& value) { return value == values[0]; });
  return same ? std::string(values[0]) : join(values, ",");
}

/// The values of the options that the run used, except for those in RankRecord.
void resolve(const Operands& operands, const Plan& plan, const pipeline::StagingSizes& staging,
             Outcome& outcome) {
  outcome.resolved = {
      {"product.precision", std::string(name_of(operands.precision))},
      {"product.decomposition", std::string(name_of(plan.decision.decomposition))},
      {"product.box", name_of(plan.shape.box)},
      {"input.type", of_all(operands, [](const auto& matrix) { return name_of(matrix.type()); })},
      {"input.read", of_all(operands,
                            [](const auto& matrix) {
                              return std::string_view(matrix.past_cache() ? "direct" : "cached");
                            })},
      {"pipeline.slots", integer(staging.slots)},
      {"pipeline.readers", integer(staging.readers)},
      {"pipeline.gpu-memory", integer(plan.problem().ranks.device_memory)}};
  for (const auto& [key, value] : operands.resolved) outcome.resolved.emplace_back(key, value);
}

void describe(const io::Matrix& matrix, const std::string& group, bool transposed,
              Outcome& outcome) {
  outcome.input.push_back({group, "name", matrix.name()});
  outcome.input.push_back({group, "type", std::string(name_of(matrix.type()))});
  outcome.input.push_back(
      {group, "shape", std::vector{integer(matrix.rows()), integer(matrix.columns())}});
  outcome.input.push_back({group, "transposed", std::int64_t{transposed}});
  outcome.input.push_back({group, "access", matrix.access()});
  outcome.input.push_back({group, "stored_bytes", integer(matrix.stored_bytes())});
  if (const Conversion* const conversion = matrix.source().conversion()) {
    outcome.input.push_back({group, "conversion", text_of(*conversion)});
  }
}

/// The plan as text.
std::string lines(const Plan& plan) {
  std::string text;
  for (const auto& part : {answer(plan), describe(plan)}) {
    for (const std::string& line : part) text += line + '\n';
  }
  return text;
}

/// The step that follows the check of a tile and is not checked, as the end of a sentence.
std::string last_step(const Operands& operands) {
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

/// The reasons why rows are not verified, each with the number of rows and the remedy.
std::string reasons_of(const Agreed& agreed, const Operands& operands) {
  std::string reasons;
  const auto add = [&](std::uint64_t rows, const std::string& reason) {
    if (rows == 0) return;
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", counted(rows, "row"), reason);
  };
  const bool widest = gemm::accumulator_type(operands.precision) == ElementType::f64;
  const gemm::PrecisionTraits& row = gemm::traits_of(operands.precision);
  const std::string_view largest = gemm::traits_of(row.panel).largest;
  const char* const smaller =
      widest ? "scale the data down" : "pass --product.precision fp64, or scale the data down";
  add(agreed.unchecked - agreed.overflowed,
      fmt::format(
          "A or B has values there that are NaN, infinite{}, or that have squares or "
          "products too small or too large for {}; to find the first NaN of a data set, run "
          "shardstream run reduce --reduce.missing error{}",
          largest.empty() ? "" : fmt::format(" or beyond {}'s {}", row.name, largest),
          name_of(row.accumulator),
          widest ? "; if values are beyond 1e154, scale the data down"
                 : "; if values are too small or too large, pass --product.precision fp64"));
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

std::string verdict_of(const Agreed& agreed, const Operands& operands) {
  switch (agreed.verification()) {
    case Verification::failed:
      return agreed.failure;
    case Verification::unchecked:
      return fmt::format("none of the {} of C's tiles could be verified: {}",
                         counted(agreed.rows, "row"), reasons_of(agreed, operands));
    case Verification::partly:
      return fmt::format(
          "{} of {} of C's tiles could not be verified: {}; all others have passed, with "
          "max_error {:.2g}{}",
          agreed.unverified(), counted(agreed.rows, "row"), reasons_of(agreed, operands),
          agreed.worst, last_step(operands));
    case Verification::passed:
      return fmt::format(
          "every row of each tile of C has passed its check, with max_error {:.2g}{}", agreed.worst,
          last_step(operands));
  }
  throw ContractError("unknown verification");
}

/// Adds the attributes of /results that matrix products have.
void add_attributes(const Operands& operands, const Plan& plan, const Agreed& agreed,
                    Outcome& outcome) {
  if (const std::uint64_t rows = agreed.overflowed_rows(); rows > 0) {
    outcome.attributes.emplace_back("overflowed_rows", integer(rows));
  }
  outcome.attributes.insert(outcome.attributes.end(),
                            {{"m", integer(operands.m)},
                             {"n", integer(operands.n)},
                             {"k", integer(operands.k)},
                             {"precision", std::string(name_of(operands.precision))},
                             {"decomposition", std::string(name_of(plan.decision.decomposition))},
                             {"box", name_of(plan.shape.box)},
                             {"alpha", operands.alpha},
                             {"unchecked_rows", integer(agreed.unchecked)},
                             {"tile_m", integer(plan.problem().tile.m)},
                             {"tile_n", integer(plan.problem().tile.n)},
                             {"tile_k", integer(plan.problem().tile.k)},
                             {"lanes", integer(plan.problem().tile.lanes)},
                             {"fold", integer(plan.problem().tile.fold)},
                             {"blocks_of_k", integer(plan.shape.blocks)},
                             {"plan", lines(plan)}});
}

void report(const Operands& operands, const std::string& name, const Plan& plan,
            const RankRecord& ran, const Agreed& agreed, Outcome& outcome) {
  const double norm = std::sqrt(agreed.squares);
  const double rms =
      norm / std::sqrt(static_cast<double>(operands.m) * static_cast<double>(operands.n));
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const bool checked = outcome.verified != Verification::unchecked;
  // The check comes before alpha, so that alpha scales its threshold in C; correlations have no
  // alpha. If C is not finite the threshold is NaN.
  const double alpha = operands.scale ? 1 : std::abs(operands.alpha);
  double caught = rms > 0 ? alpha * agreed.detection_threshold / rms : 0;
  if (!checked || !std::isfinite(rms)) caught = nan;
  const std::string checksum = fmt::format("{:016x}", agreed.checksum);
  Table table(name, {{"output", ColumnType::text},
                     {"norm", ColumnType::real},
                     {"checksum", ColumnType::text},
                     {"validated", ColumnType::integer},
                     {"max_error", ColumnType::real},
                     {"tolerance", ColumnType::real},
                     {"detection_threshold", ColumnType::real}});
  table.add({std::string("C"), norm, checksum,
             std::int64_t{outcome.verified == Verification::passed}, checked ? agreed.worst : nan,
             1.0, caught});
  outcome.results.push_back(std::move(table));
  const auto number = [&](const char* key, std::uint64_t value) {
    outcome.metrics.push_back({key, integer(value)});
  };
  number("m", operands.m);
  number("n", operands.n);
  number("k", operands.k);
  outcome.metrics.push_back({"precision", std::string(name_of(operands.precision))});
  outcome.metrics.push_back({"decomposition", std::string(name_of(plan.decision.decomposition))});
  outcome.metrics.push_back({"c_norm", norm});
  outcome.metrics.push_back({"c_checksum", checksum});
  if (agreed.unchecked > 0) number("unchecked_rows", agreed.unchecked);
  if (agreed.overflowed_rows() > 0) number("overflowed_rows", agreed.overflowed_rows());
  outcome.metrics.push_back({"detection_threshold", caught, "", "{:.3g}"});
  outcome.metrics.push_back(
      {"upload_ratio",
       static_cast<double>(plan.traffic.uploads) / static_cast<double>(plan.traffic.min_uploads),
       "", "{:.4f}"});
  if (ran.computed && !ran.resumed) {
    outcome.metrics.push_back({"predicted", plan.prediction.seconds, "s", "{:.6g}"});
  }
  add_attributes(operands, plan, agreed, outcome);
}

/// Fills in the work of this run, without tiles that were taken over, since its time does not
/// include them either.
void count_work(const ranks::Session& session, const Operands& operands, const Plan& plan,
                Limits&& limits, bool stored, const RankRecord& ran, Outcome& outcome) {
  const auto all_ranks = [&](double mine) {
    double sum = 0;
    for (const double one : session.gather(std::vector{mine})) sum += one;
    return sum;
  };
  const double whole = all_ranks(plan.traffic.flops);
  double taken = 0;
  for (const FinishedTile& tile : ran.taken) taken += flops_of(tile, plan);
  outcome.elements = operands.m * operands.n;
  const double flops = whole - all_ranks(taken);
  const double left = flops / whole;
  const double received = all_ranks(static_cast<double>(plan.traffic.received()));
  const double sent_up = all_ranks(static_cast<double>(ran.min_uploads));
  if (!ran.computed) return;
  outcome.work = computing(flops);
  const Problem& problem = plan.problem();
  const std::uint64_t c_bytes = outcome.elements * gemm::accumulator_bytes(operands.precision);
  outcome.bytes = operands.m * operands.k * problem.a.element_bytes + c_bytes;
  if (!operands.symmetric) outcome.bytes += operands.k * operands.n * problem.b.element_bytes;
  const double down = static_cast<double>(c_bytes) / (operands.symmetric && !stored ? 2 : 1);
  outcome.ceilings = loaded(std::move(limits), {sent_up, left * down, left * received, flops});
}

/// Prints warnings about a result that is no failure.
void warn(Log& log, const Operands& operands, const Agreed& agreed, const Outcome& outcome) {
  if (!std::isfinite(agreed.squares) && outcome.verified == Verification::passed) {
    log.warn(
        "c_norm is not finite, since the sum of the squares of C's elements overflows, or input.c "
        "is "
        "not finite: scale the data down if you need the norm");
  }
  if (operands.scale && agreed.constant > 0) {
    log.warn(fmt::format(
        "{} constant (zero variance): {} of C are 0",
        agreed.constant == 1 ? "1 variable is" : fmt::format("{} variables are", agreed.constant),
        agreed.constant == 1 ? "its row and column" : "their rows and columns"));
  }
}

}  // namespace

Agreed agree(const ranks::Session& session, const Plan& plan, const CheckSummary& mine,
             bool repeatable) {
  Agreed all{.failure = {},
             .worst = session.max(mine.worst),
             .detection_threshold = session.max(mine.detection_threshold),
             .rows = rows_of_tiles(plan),
             .unchecked = session.sum(mine.unchecked),
             .checksum = session.sum(mine.checksum),
             .constant = session.sum(mine.constant),
             .overflowed = session.sum(mine.overflowed),
             .infinite = session.sum(mine.infinite)};
  for (const std::string& failure : session.gather(mine.failure)) {
    if (all.failure.empty()) all.failure = failure;
  }
  if (session.max(repeatable ? 0 : 1) > 0 && all.failure.empty()) {
    all.failure = "the checksums of the repetitions differ";
  }
  // In the order of the tiles, which does not depend on the ranks.
  std::vector<CheckSummary::Squares> squares = session.gather(mine.squares);
  std::ranges::sort(squares, {}, &CheckSummary::Squares::tile);
  for (const auto& [tile, sum] : squares) all.squares += sum;
  return all;
}

void conclude(const runtime::Runtime& runtime, const Operands& operands, const std::string& name,
              const Plan& plan, const pipeline::StagingSizes& staging, Limits&& limits, bool stored,
              const RankRecord& ran, const Agreed& agreed, Outcome& outcome) {
  count_work(runtime.session, operands, plan, std::move(limits), stored, ran, outcome);
  outcome.verified = agreed.verification();
  outcome.verdict = verdict_of(agreed, operands);
  if (runtime.session.rank() == 0) warn(runtime.log, operands, agreed, outcome);
  resolve(operands, plan, staging, outcome);
  outcome.resolved.emplace_back("pipeline.slot", integer(ran.slot_bytes));
  if (operands.normalizes()) {
    outcome.attributes.emplace_back("constant_variables", integer(agreed.constant));
    outcome.attributes.emplace_back("second_pass_variables", integer(ran.second_pass_variables));
  }
  if (ran.resumed) {
    const std::uint64_t tiles = runtime.session.sum(ran.taken.size());
    outcome.metrics.push_back({"resumed_tiles", integer(tiles)});
    outcome.attributes.emplace_back("resumed_tiles", integer(tiles));
  }
  report(operands, name, plan, ran, agreed, outcome);
  if (operands.symmetric) {
    describe(*operands.a, "/input", operands.transpose_a, outcome);
    return;
  }
  describe(*operands.a, "/input/a", operands.transpose_a, outcome);
  describe(*operands.b, "/input/b", operands.transpose_b, outcome);
  if (operands.c) describe(*operands.c, "/input/c", false, outcome);
}

}  // namespace shardstream::workloads::product
