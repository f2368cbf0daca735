#include "workloads/product/product_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "types/stored_value.hpp"
#include "workloads/product/plan/description.hpp"
#include "workloads/product/verdict.hpp"

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
  return 2.0 * static_cast<double>(problem.moments.count) * static_cast<double>(rows.count) *
         static_cast<double>(columns.count) * static_cast<double>(problem.k);
}

/// The rows of all computed tiles, counted once for each of their moments, which are checked one by
/// one.
std::uint64_t rows_of_tiles(const Plan& plan) {
  const Problem& problem = plan.problem();
  std::uint64_t rows = 0;
  for (std::uint64_t row = 0; row < plan.shape.tile_rows; ++row) {
    rows += elements_of({row, 1}, problem.tile.m, problem.m).count *
            plan.shape.count_tiles({{row, 1}, {0, plan.shape.tile_columns}});
  }
  return rows * problem.moments.count;
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
      {"product.precision", std::string(word_of(operands.precision))},
      {"product.decomposition", std::string(word_of(plan.decision.decomposition))},
      {"product.box", text_of(plan.shape.box)},
      {"input.type", of_all(operands, [](const auto& matrix) { return word_of(matrix.type()); })},
      {"input.read", of_all(operands,
                            [](const auto& matrix) {
                              return std::string_view(matrix.past_cache() ? "direct" : "cached");
                            })},
      {"pipeline.slots", integer(staging.slots)},
      {"pipeline.readers", integer(staging.readers)},
      {"pipeline.gpu-memory", integer(plan.problem().ranks.device_memory)}};
  // 0 if no residues are multiplied
  outcome.resolved.emplace_back("product.planes", integer(plan.problem().tile.moduli));
  for (const auto& [key, value] : operands.resolved) outcome.resolved.emplace_back(key, value);
}

void describe(const io::Matrix& matrix, const std::string& group, bool transposed,
              Outcome& outcome) {
  outcome.input.push_back({group, "name", matrix.name()});
  outcome.input.push_back({group, "type", std::string(word_of(matrix.type()))});
  outcome.input.push_back(
      {group, "shape", std::vector{integer(matrix.rows()), integer(matrix.columns())}});
  outcome.input.push_back({group, "transposed", std::int64_t{transposed}});
  outcome.input.push_back({group, "access", matrix.access()});
  outcome.input.push_back({group, "stored_bytes", integer(matrix.stored_bytes())});
  describe_dimensions(matrix.source(), group, outcome);
  if (const io::Conversions& conversions = matrix.source().conversions(); !conversions.empty()) {
    outcome.input.push_back({group, "conversion", io::text_of(conversions)});
  }
  describe_join(matrix.origin(), group, outcome);
}

/// Says which dimensions have the samples and the variables, and which of them have weights.
void report_dimensions(const Operands& operands, Outcome& outcome) {
  const auto add = [&](const char* key, Weights::Of of) {
    const std::vector<std::size_t>& dimensions = operands.dimensions_of(of);
    if (dimensions.empty()) return;
    outcome.metrics.push_back({key, names_of_dimensions(operands.a->source(), dimensions, ",")});
  };
  add("sample_dimensions", Weights::Of::samples);
  add("variable_dimensions", Weights::Of::variables);
  if (!operands.weights) return;
  const bool samples = operands.weights->of == Weights::Of::samples;
  outcome.metrics.push_back({"weights_of", std::string(samples ? "samples" : "variables")});
  workloads::describe(operands.weights->paired, "weights", outcome);
}

void describe(const Weights& weights, Outcome& outcome) {
  const bool samples = weights.of == Weights::Of::samples;
  outcome.input.push_back({"/input/weights", "name", weights.name});
  outcome.input.push_back({"/input/weights", "of", std::string(samples ? "samples" : "variables")});
}

/// The plan as text.
std::string lines(const Plan& plan) {
  std::string text;
  for (const auto& part : {answer(plan), describe(plan)}) {
    for (const std::string& line : part) text += line + '\n';
  }
  return text;
}

/// The factor of C's sums of products.
double alpha_of(const Operands& operands, const RankRecord& ran) {
  return ran.samples != nullptr && !operands.pairwise() ? ran.samples->alpha : operands.alpha;
}

/// Adds what the passes over the data have found.
void report_samples(const Operands& operands, const RankRecord& ran, Outcome& outcome) {
  outcome.attributes.emplace_back("second_pass_variables", integer(ran.second_pass_variables));
  if (!operands.has_sample_factors()) return;
  if (operands.missing == Missing::complete) {
    outcome.attributes.emplace_back("missing", std::string("complete"));
    outcome.metrics.push_back({"missing", std::string("complete")});
  }
  outcome.attributes.emplace_back("samples", integer(ran.samples->count));
  outcome.metrics.push_back({"samples", integer(ran.samples->count)});
  if (operands.missing != Missing::complete) return;
  outcome.metrics.push_back({"empty_variables", integer(ran.samples->empty.size())});
}

/// Adds the attributes of /results that matrix products have.
void add_attributes(const Operands& operands, const Plan& plan, const RankRecord& ran,
                    const Agreed& agreed, Outcome& outcome) {
  if (const std::uint64_t rows = agreed.overflowed_rows(); rows > 0) {
    outcome.attributes.emplace_back("overflowed_rows", integer(rows));
  }
  outcome.attributes.insert(outcome.attributes.end(),
                            {{"m", integer(operands.m)},
                             {"n", integer(operands.n)},
                             {"k", integer(operands.k)},
                             {"precision", std::string(word_of(operands.precision))},
                             {"decomposition", std::string(word_of(plan.decision.decomposition))},
                             {"box", text_of(plan.shape.box)},
                             {"alpha", alpha_of(operands, ran)},
                             {"unchecked_rows", integer(agreed.unchecked)},
                             {"tile_m", integer(plan.problem().tile.m)},
                             {"tile_n", integer(plan.problem().tile.n)},
                             {"tile_k", integer(plan.problem().tile.k)},
                             {"lanes", integer(plan.problem().tile.lanes)},
                             {"fold", integer(plan.problem().tile.fold)},
                             {"blocks_of_k", integer(plan.shape.blocks)},
                             {"plan", lines(plan)}});
}

/// The root mean square of rows x columns elements with this norm.
double rms_of(double norm, std::uint64_t rows, std::uint64_t columns) {
  return norm / std::sqrt(static_cast<double>(rows) * static_cast<double>(columns));
}

/// Adds the row of N to the table of results, and what is known about the samples of the pairs.
void report_counts(const Operands& operands, const Agreed& agreed, Table& table, Outcome& outcome) {
  const PairCounts& counts = agreed.counts;
  const double norm = std::sqrt(agreed.counts_squares);
  const std::string checksum = fmt::format("{:016x}", counts.weighted);
  const bool checked = outcome.verified != Verification::unchecked;
  const double one =
      norm > 0 ? 1 / rms_of(norm, operands.n, operands.n) : 1;  // a wrong count is off by 1
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  table.add({std::string("N"), norm, checksum,
             std::int64_t{outcome.verified == Verification::passed}, checked ? agreed.worst : nan,
             1.0, checked ? one : nan});
  outcome.metrics.push_back({"missing", std::string("pairwise")});
  outcome.metrics.push_back({"n_checksum", checksum});
  outcome.attributes.emplace_back("missing", std::string("pairwise"));
  const auto add = [&](const char* key, std::uint64_t value) {
    outcome.metrics.push_back({key, integer(value)});
    outcome.attributes.emplace_back(key, integer(value));
  };
  add("min_pair_samples", counts.max > 0 ? counts.min : 0);
  add("max_pair_samples", counts.max);
  add("pairs_without_samples", counts.without_samples);
  outcome.metrics.push_back({"empty_variables", integer(counts.empty)});
}

/// Adds the bound of the error of a product of residues, |C - A B| / (|a_i| |b_j|). Collective.
void report_bound(const ranks::Session& session, const Plan& plan, const RankRecord& ran,
                  Outcome& outcome) {
  const Problem& problem = plan.problem();
  const gemm::Tile& tile = problem.tile;
  if (tile.moduli == 0) return;
  // Tiles of an earlier run have the bound that the moduli guarantee.
  const double of_lines =
      session.max(ran.resumed ? gemm::residue_error(tile.moduli, tile.k) : ran.rounding_error);
  const double roundings = 2 * static_cast<double>(plan.shape.blocks);  // and additions
  const double bound = of_lines + roundings * gemm::traits_of(problem.precision).rounding.unit;
  outcome.metrics.push_back({"error_bound", bound, "", "{:.3g}"});
  outcome.attributes.emplace_back("error_bound", bound);
  outcome.attributes.emplace_back("planes", integer(tile.moduli));
}

void report(const Operands& operands, const std::string& name, const Plan& plan,
            const RankRecord& ran, const Agreed& agreed, Outcome& outcome) {
  const double norm = std::sqrt(agreed.squares);
  // Without the elements that have no samples
  const std::uint64_t empty = operands.pairwise()      ? agreed.counts.empty
                              : ran.samples != nullptr ? ran.samples->empty.size()
                                                       : 0;
  const double rms = rms_of(norm, operands.m - empty, operands.n - empty);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const bool checked = outcome.verified != Verification::unchecked;
  // The check comes before alpha, so that alpha scales its threshold in C; correlations have no
  // alpha. If C is not finite the threshold is NaN.
  const double alpha = operands.scale ? 1 : std::abs(alpha_of(operands, ran));
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
  const auto number = [&](const char* key, std::uint64_t value) {
    outcome.metrics.push_back({key, integer(value)});
  };
  number("m", operands.m);
  number("n", operands.n);
  number("k", operands.k);
  outcome.metrics.push_back({"precision", std::string(word_of(operands.precision))});
  if (const unsigned planes = plan.problem().tile.moduli; planes > 0) number("planes", planes);
  outcome.metrics.push_back({"decomposition", std::string(word_of(plan.decision.decomposition))});
  outcome.metrics.push_back({"c_norm", norm});
  outcome.metrics.push_back({"c_checksum", checksum});
  if (operands.pairwise()) report_counts(operands, agreed, table, outcome);
  outcome.results.push_back(std::move(table));
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
  add_attributes(operands, plan, ran, agreed, outcome);
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
  const std::uint64_t c_bytes =  // with N
      outcome.elements * problem.moments.results() * gemm::accumulator_bytes(operands.precision);
  outcome.bytes = operands.m * operands.k * problem.a.element_bytes + c_bytes;
  if (!operands.symmetric) outcome.bytes += operands.k * operands.n * problem.b.element_bytes;
  const double down = static_cast<double>(c_bytes) / (operands.symmetric && !stored ? 2 : 1);
  outcome.ceilings = loaded(std::move(limits), {sent_up, left * down, left * received, flops});
}

/// Prints warnings about a result that is no failure.
void warn(Log& log, const Operands& operands, const VariableNames& names, const Agreed& agreed,
          const Outcome& outcome) {
  if (!std::isfinite(agreed.squares) && outcome.verified == Verification::passed) {
    log.warn(
        "c_norm is not finite, since the sum of the squares of C's elements overflows, or input.c "
        "is not finite: scale the data down if you need the norm");
  }
  if (operands.pairwise()) {
    log.info(
        "each element of C has its own samples (gram.missing pairwise), so C may be indefinite: it "
        "can have negative eigenvalues");
  }
  for (const std::string& warning : warnings_of_variables(operands, names, agreed.variables)) {
    log.warn(warning);
  }
}

/// Adds the labels of C, and the statistics of the variables.
void add_variables(const Operands& operands, const VariableNames& names, const Agreed& agreed,
                   bool stored, Outcome& outcome) {
  if (!operands.symmetric) {
    outcome.labelled = labelled_product(operands, stored);
    return;
  }
  outcome.labelled = labelled(operands, names, agreed.variables, stored);
  if (agreed.variables.empty()) return;
  const auto count = [&](VariableKind kind) {
    return integer(variables_of(kind, operands, agreed.variables).size());
  };
  if (operands.normalizes()) {
    outcome.attributes.emplace_back("constant_variables", count(VariableKind::constant));
  }
  outcome.attributes.emplace_back("empty_variables", count(VariableKind::empty));
  Table special = special_variables(operands, names, agreed.variables);
  if (!special.rows().empty()) outcome.results.push_back(std::move(special));
}

/// The counts of all tiles. Collective.
PairCounts counts_of_all(const ranks::Session& session, const PairCounts& mine) {
  PairCounts all;
  for (const PairCounts& each : session.gather(std::vector{mine})) all.add(each);
  return all;
}

/// The statistics of all variables, from the ranks that have finished their tiles. Collective.
std::vector<VariableStatistics> variables_of(const ranks::Session& session, const Plan& plan,
                                             const CheckSummary& mine) {
  const Problem& problem = plan.problem();
  if (!problem.describes_variables()) return {};
  std::vector<VariableStatistics> all(problem.m);
  for (const auto& [tile, row, statistics] : session.gather(mine.variables)) {
    all.at(tile / (plan.shape.tile_columns + 1) * problem.tile.m + row) = statistics;
  }
  return all;
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
             .overflowed = session.sum(mine.overflowed),
             .infinite = session.sum(mine.infinite),
             .variables = variables_of(session, plan, mine),
             .counts = counts_of_all(session, mine.counts)};
  for (const std::string& failure : session.gather(mine.failure)) {
    if (all.failure.empty()) all.failure = failure;
  }
  if (session.max(repeatable ? 0 : 1) > 0 && all.failure.empty()) {
    all.failure = "the checksums of the repetitions differ";
  }
  // In the order of the tiles, which does not depend on the ranks.
  std::vector<CheckSummary::Squares> squares = session.gather(mine.squares);
  std::ranges::sort(squares, {}, &CheckSummary::Squares::tile);
  for (const auto& [tile, sum, of_counts] : squares) {
    all.squares += sum;
    all.counts_squares += of_counts;
  }
  return all;
}

void conclude(const runtime::Runtime& runtime, const ComputedProduct& product, Limits&& limits,
              const RankRecord& ran, const Agreed& agreed, Outcome& outcome) {
  const auto& [operands, name, plan, staging, stored, names] = product;
  count_work(runtime.session, operands, plan, std::move(limits), stored, ran, outcome);
  outcome.verified = agreed.verification();
  outcome.verdict = verdict_of(agreed, operands, ran.not_finite);
  if (runtime.session.rank() == 0) warn(runtime.log, operands, names, agreed, outcome);
  resolve(operands, plan, staging, outcome);
  outcome.resolved.emplace_back("pipeline.slot", integer(ran.slot_bytes));
  if (operands.symmetric) report_dimensions(operands, outcome);
  if (operands.normalizes()) report_samples(operands, ran, outcome);
  if (ran.resumed) {
    const std::uint64_t tiles = runtime.session.sum(ran.taken.size());
    outcome.metrics.push_back({"resumed_tiles", integer(tiles)});
    outcome.attributes.emplace_back("resumed_tiles", integer(tiles));
  }
  report(operands, name, plan, ran, agreed, outcome);
  report_bound(runtime.session, plan, ran, outcome);
  add_variables(operands, names, agreed, stored, outcome);
  if (operands.symmetric) {
    describe(*operands.a, "/input", operands.transpose_a, outcome);
    if (operands.weights) describe(*operands.weights, outcome);
    return;
  }
  describe(*operands.a, "/input/a", operands.transpose_a, outcome);
  describe(*operands.b, "/input/b", operands.transpose_b, outcome);
  if (operands.c) describe(*operands.c, "/input/c", false, outcome);
}

}  // namespace shardstream::workloads::product
