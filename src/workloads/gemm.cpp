#include "workloads/gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "kernels/gemm/panel.hpp"
#include "measure/ceilings.hpp"
#include "measure/source_ceilings.hpp"

namespace shardstream::workloads {
namespace {

constexpr std::array rows = {
    OptionRow{
        "gemm.precision", OptionKind::choice, "fp32", "fp64|fp32|tf32|bf16|fp16",
        "What A and B are rounded to before they are multiplied; sums and C are doubles with fp64, "
        "else floats."},
    OptionRow{"gemm.alpha", OptionKind::number, "1", "", "Factor of the product A B."},
    OptionRow{"gemm.beta", OptionKind::number, "0", "",
              "Factor of input.c, which is added; 0 adds nothing."},
    OptionRow{"gemm.transpose-a", OptionKind::flag, "false", "",
              "Whether input.a holds the transpose of A."},
    OptionRow{"gemm.transpose-b", OptionKind::flag, "false", "",
              "Whether input.b holds the transpose of B."},
    OptionRow{"gemm.m", OptionKind::count, "4096", "1..", "Rows of A and C, where A is generated."},
    OptionRow{"gemm.n", OptionKind::count, "4096", "1..",
              "Columns of B and C, where B is generated."},
    OptionRow{"gemm.k", OptionKind::count, "4096", "1..",
              "Columns of A and rows of B, where both are generated."},
};

std::string extents(const io::Matrix& matrix) {
  return fmt::format("{} is {} x {}", matrix.name(), matrix.rows(), matrix.columns());
}

bool is_file(const Options& options, std::string_view key) {
  return !io::input_file(options, key).empty();
}

/// Elsewhere than on the command line they may be for another run.
void refuse_sizes_of_files(const Options& options) {
  constexpr std::array<std::array<const char*, 2>, 4> sizes = {
      {{"gemm.m", "input.a"}, {"gemm.k", "input.a"}, {"gemm.k", "input.b"}, {"gemm.n", "input.b"}}};
  for (const auto& [size, matrix] : sizes) {
    if (!options.is_on_command_line(size) || !is_file(options, matrix)) continue;
    throw UsageError(fmt::format(
        "{} is for generated matrices, and {} is a data set that has its own size: leave it out",
        size, matrix));
  }
}

/// Hosts may see different files under one name.
void expect_same_operands(const launch::Session& session, const GemmOperands& operands) {
  std::string mine;
  for (const auto* matrix : {operands.a.get(), operands.b.get(), operands.c.get()}) {
    if (matrix == nullptr) continue;
    mine += fmt::format("{} {}, ", extents(*matrix), name_of(matrix->type()));
  }
  const auto all = session.gather(mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw UsageError(fmt::format(
        "the operands are not the same on ranks 0 and {} ({}and {}): use files that all hosts "
        "share",
        rank, all[0], all[rank]));
  }
}

GemmOperands open_operands(const Options& options) {
  GemmOperands operands;
  operands.transpose_a = options.flag("gemm.transpose-a");
  operands.transpose_b = options.flag("gemm.transpose-b");
  operands.alpha = options.number("gemm.alpha");
  operands.beta = options.number("gemm.beta");
  operands.precision = *gemm::precision_named(options.text("gemm.precision"));
  operands.m = options.count("gemm.m");
  operands.n = options.count("gemm.n");
  operands.k = options.count("gemm.k");
  const ElementType generated =
      operands.precision == gemm::Precision::fp64 ? ElementType::f64 : ElementType::f32;
  const auto open_a = [&] {
    const auto [down, across] = operands.transpose_a ? std::pair(operands.k, operands.m)
                                                     : std::pair(operands.m, operands.k);
    operands.a = io::open_matrix(options, "input.a", down, across, generated);
    operands.m = operands.transpose_a ? operands.a->columns() : operands.a->rows();
    operands.k = operands.transpose_a ? operands.a->rows() : operands.a->columns();
  };
  const auto open_b = [&] {
    const auto [down, across] = operands.transpose_b ? std::pair(operands.n, operands.k)
                                                     : std::pair(operands.k, operands.n);
    operands.b = io::open_matrix(options, "input.b", down, across, generated);
    operands.n = operands.transpose_b ? operands.b->rows() : operands.b->columns();
    const std::uint64_t k = operands.transpose_b ? operands.b->columns() : operands.b->rows();
    if (operands.a && k != operands.k) {
      throw UsageError(fmt::format(
          "the inner sizes {} and {} differ ({}{}, {}{}): multiply matrices that fit, or pass "
          "--gemm.transpose-a or --gemm.transpose-b",
          operands.k, k, extents(*operands.a), operands.transpose_a ? ", transposed" : "",
          extents(*operands.b), operands.transpose_b ? ", transposed" : ""));
    }
    operands.k = k;
  };
  // A generated operand takes the inner size of the other one's file.
  if (is_file(options, "input.a") || !is_file(options, "input.b")) {
    open_a();
    open_b();
  } else {
    open_b();
    open_a();
  }
  refuse_sizes_of_files(options);
  if (saturating_product(saturating_product(operands.m, operands.n),
                         gemm::accumulator_bytes(operands.precision)) > INT64_MAX) {
    throw UsageError(
        fmt::format("C is {} x {}, which is more than 2^63 bytes: choose smaller sizes", operands.m,
                    operands.n));
  }
  const bool named = !options.text("input.c").empty();
  if (named != (operands.beta != 0)) {
    throw UsageError(named ? "input.c is given, but gemm.beta is 0: pass --gemm.beta too"
                           : fmt::format("gemm.beta is {}, but there is no C to add: name one "
                                         "with --input.c",
                                         options.text("gemm.beta")));
  }
  if (named) {
    operands.c = io::open_matrix(options, "input.c", operands.m, operands.n, generated);
    if (operands.c->rows() != operands.m || operands.c->columns() != operands.n) {
      throw UsageError(
          fmt::format("input.c: {}, but the product is {} x {}: name a C of that shape",
                      extents(*operands.c), operands.m, operands.n));
    }
  }
  return operands;
}

/// What limits the product on this machine, before its buffers are there.
struct Limits {
  measure::Ceiling up, down, multiply;
  std::optional<measure::Ceiling> gather;

  GemmRates rates() const {
    return {.link_up = up.least * 1e9,
            .link_down = down.least * 1e9,
            .gather = gather ? gather->least * 1e9 : 1e12,
            .flops = multiply.least * 1e9};
  }
};

/// Measured again for a while if the product takes long: a GPU that has reached its power limit is
/// slower than one that has just begun. Collective.
measure::Ceiling multiply_limit(runtime::Runtime& runtime, const GemmOperands& operands,
                                const gemm::Tile& tile, measure::Effort effort) {
  const auto measured = [&] {
    return measure::multiply(*runtime.device, runtime.session, effort, operands.precision, tile);
  };
  measure::Ceiling ceiling = measured();
  const double flops = 2.0 * static_cast<double>(operands.m) * static_cast<double>(operands.n) *
                       static_cast<double>(operands.k);
  const double seconds = flops / (ceiling.aggregate * 1e9);
  if (seconds < 4 * effort.seconds) return ceiling;
  effort.seconds = std::min(seconds / 2, 0.4);
  return measured();
}

Limits limits(runtime::Runtime& runtime, const GemmOperands& operands, const gemm::Tile& tile,
              std::uint64_t device_limit) {
  const auto span = runtime.recorder.phase("ceilings");
  const launch::Session& session = runtime.session;
  device::Device& device = *runtime.device;
  const double bytes =
      4.0 *
      (static_cast<double>(operands.m + operands.n) * static_cast<double>(operands.k) +
       static_cast<double>(operands.m) * static_cast<double>(operands.n)) /
      session.size();
  const auto effort = measure::effort_for(
      device, session, static_cast<std::uint64_t>(bytes),
      measure::host_memory_sample(runtime.resources.cache, runtime.resources.host_memory,
                                  runtime.resources.ranks_on_host),
      device_limit);
  constexpr std::size_t most_gathered = std::size_t{64} << 20;
  return {.up = measure::link(measure::Way::up, device, session, effort),
          .down = measure::link(measure::Way::down, device, session, effort),
          .multiply = multiply_limit(runtime, operands, tile, effort),
          .gather = measure::all_gather(
              device, *runtime.communicator, session, effort,
              std::clamp<std::uint64_t>(
                  effort.device_bytes / static_cast<std::uint64_t>(session.size()) / 256 * 256, 256,
                  most_gathered))};
}

/// What each of them has to carry in a repetition.
std::vector<measure::Ceiling> loaded(Limits&& limits, const launch::Session& session,
                                     const GemmPlan& plan, std::uint64_t uploaded,
                                     std::uint64_t c_bytes, double flops) {
  std::vector<measure::Ceiling> ceilings;
  const auto add = [&](measure::Ceiling&& ceiling, double load) {
    ceiling.on_path = true;
    ceiling.load = load / 1e9;
    ceilings.push_back(std::move(ceiling));
  };
  add(std::move(limits.up), static_cast<double>(session.sum(uploaded)));
  add(std::move(limits.down), static_cast<double>(c_bytes));
  if (limits.gather) {
    add(std::move(*limits.gather), static_cast<double>(session.sum(plan.received())));
  }
  add(std::move(limits.multiply), flops);
  return ceilings;
}

/// All ranks' verdicts as one.
struct Agreed {
  std::string failure;
  double worst, smallest_caught, squares;
  std::uint64_t unchecked, checksum;
};

/// Collective.
Agreed agree(const launch::Session& session, const GemmVerdict& mine) {
  Agreed all{.failure = {},
             .worst = session.max(mine.worst),
             .smallest_caught = session.max(mine.smallest_caught),
             .squares = 0,
             .unchecked = session.sum(mine.unchecked),
             .checksum = session.sum(mine.checksum)};
  for (const std::string& failure : session.gather(mine.failure)) {
    if (all.failure.empty()) all.failure = failure;
  }
  // In the order of the tiles, whoever had them. As bytes, since ranks may have more or fewer.
  const auto* const mine_bytes = reinterpret_cast<const char*>(mine.squares.data());
  for (const std::string& bytes :
       session.gather(std::string(mine_bytes, mine.squares.size() * sizeof(double)))) {
    std::vector<double> squares(bytes.size() / sizeof(double));
    std::memcpy(squares.data(), bytes.data(), bytes.size());
    for (const double one : squares) all.squares += one;
  }
  return all;
}

void describe(const io::Matrix& matrix, const char* name, bool transposed, Outcome& outcome) {
  const std::string group = fmt::format("/input/{}", name);
  outcome.input.push_back({group, "name", matrix.name()});
  outcome.input.push_back({group, "type", std::string(name_of(matrix.type()))});
  outcome.input.push_back({group, "shape",
                           std::vector<std::int64_t>{static_cast<std::int64_t>(matrix.rows()),
                                                     static_cast<std::int64_t>(matrix.columns())}});
  outcome.input.push_back({group, "transposed", std::int64_t{transposed}});
  outcome.input.push_back({group, "access", matrix.access()});
  outcome.input.push_back(
      {group, "stored_bytes", static_cast<std::int64_t>(matrix.stored_bytes())});
}

/// What the plan came to and why, for people.
std::string lines(const GemmPlan& plan) {
  std::string text;
  for (const std::string& line : describe(plan)) text += line + '\n';
  return text;
}

void report(const GemmOperands& operands, const GemmPlan& plan, const Agreed& agreed,
            Outcome& outcome) {
  const auto integer = [](std::uint64_t x) { return static_cast<std::int64_t>(x); };
  const double norm = std::sqrt(agreed.squares);
  const double rms =
      norm / std::sqrt(static_cast<double>(operands.m) * static_cast<double>(operands.n));
  // The check is of the product itself; alpha scales what it catches in C.
  const double caught = rms > 0 ? std::abs(operands.alpha) * agreed.smallest_caught / rms : 0;
  const std::string checksum = fmt::format("{:016x}", agreed.checksum);
  Table table("gemm", {{"output", ColumnType::text},
                       {"norm", ColumnType::real},
                       {"checksum", ColumnType::text},
                       {"validated", ColumnType::integer},
                       {"max_error", ColumnType::real},
                       {"tolerance", ColumnType::real},
                       {"smallest_caught", ColumnType::real}});
  table.add({std::string("C"), norm, checksum, std::int64_t{outcome.verified}, agreed.worst, 1.0,
             caught});
  outcome.results.push_back(std::move(table));
  outcome.metrics.push_back({"m", fmt::format("{}", operands.m)});
  outcome.metrics.push_back({"n", fmt::format("{}", operands.n)});
  outcome.metrics.push_back({"k", fmt::format("{}", operands.k)});
  outcome.metrics.push_back({"precision", std::string(name_of(operands.precision))});
  outcome.metrics.push_back({"c_norm", fmt::format("{}", norm)});
  outcome.metrics.push_back({"c_checksum", checksum});
  if (agreed.unchecked > 0) {
    outcome.metrics.push_back({"unchecked_rows", fmt::format("{}", agreed.unchecked)});
  }
  outcome.metrics.push_back({"smallest_caught", fmt::format("{:.3g}", caught)});
  outcome.metrics.push_back(
      {"uploads_by_least", fmt::format("{:.4f}", static_cast<double>(plan.uploads) /
                                                     static_cast<double>(plan.least_uploads))});
  outcome.attributes = {{"m", integer(operands.m)},
                        {"n", integer(operands.n)},
                        {"k", integer(operands.k)},
                        {"precision", std::string(name_of(operands.precision))},
                        {"tile_m", integer(plan.problem.tile.m)},
                        {"tile_n", integer(plan.problem.tile.n)},
                        {"tile_k", integer(plan.problem.tile.k)},
                        {"super_tiles", integer(plan.super_tiles())},
                        {"batches", integer(plan.batches())},
                        {"plan", lines(plan)}};
}

}  // namespace

std::span<const OptionRow> gemm_options() {
  return rows;
}

GemmOperands open_gemm(const launch::Session& session, const Options& options) {
  GemmOperands operands;
  session.collectively([&] { operands = open_operands(options); });
  session.collectively([&] { expect_same_operands(session, operands); });
  return operands;
}

ElementType result_type(const GemmOperands& operands) {
  return operands.precision == gemm::Precision::fp64 ? ElementType::f64 : ElementType::f32;
}

Outcome gemm(runtime::Runtime& runtime, const GemmOperands& operands, const io::RangeWriter* to) {
  const launch::Session& session = runtime.session;
  const bool on_host = runtime.resources.device_is_host;
  session.collectively([&] {
    if (on_host && !gemm::host_multiply_exists()) {
      throw UsageError(
          "this program was built without a CBLAS, so that gemm needs GPUs: install "
          "OpenBLAS and build again, or pass --device.backend cuda");
    }
    const auto mode = pipeline::mode(runtime.options);
    if (mode != pipeline::Mode::stream && mode != pipeline::Mode::pageable) {
      throw UsageError(fmt::format(
          "gemm takes A and B from where they are or from ordinary memory: pass --pipeline.mode "
          "stream or pageable, not {}",
          runtime.options.text("pipeline.mode")));
    }
  });
  const gemm::Tile tile =
      gemm::tile_for(operands.m, operands.n, operands.k, operands.precision, on_host);
  const std::uint64_t limit = pipeline::device_limit(runtime.options, runtime.resources);
  const auto operand = [&](const io::Matrix& matrix, bool transposed) -> GemmOperand {
    return {size_of(matrix.type()),
            gemm::needs_canonicalize(matrix.type(), transposed, operands.precision)};
  };
  GemmProblem problem{
      .m = operands.m,
      .n = operands.n,
      .k = operands.k,
      .precision = operands.precision,
      .a = operand(*operands.a, operands.transpose_a),
      .b = operand(*operands.b, operands.transpose_b),
      .reads_c = operands.c != nullptr,
      .decomposition = Decomposition::rows,
      .ranks = static_cast<std::uint64_t>(session.size()),
      .device_memory = static_cast<std::uint64_t>(-session.max(-static_cast<double>(limit))),
      .other_bytes = on_host ? 0 : gemm::most_workspace,
      .on_host = on_host,
      .tile = tile};
  const auto rank = static_cast<std::uint64_t>(session.rank());
  // What never fits is refused before anything is measured.
  session.collectively([&] { (void)plan_gemm(problem, {1, 1, 1, 1}, rank); });
  Limits limits = workloads::limits(runtime, operands, tile, limit);
  GemmPlan plan;
  session.collectively([&] { plan = plan_gemm(problem, limits.rates(), rank); });
  session.collectively([&] {  // of A's own rows, and of all of B, since each block has a part
    Range own = intersection({plan.rows.first * tile.m, plan.rows.count * tile.m}, {0, operands.m});
    if (own.count == 0) own.first = 0;
    operands.a->prepare(operands.transpose_a ? Range{0, operands.a->rows()} : own);
    operands.b->prepare({0, operands.b->rows()});
  });
  const pipeline::Ring staging = pipeline::staging_ring(runtime.options, runtime.resources);
  std::optional<GemmProduct> product;
  {
    const auto span = runtime.recorder.phase("allocate");
    session.collectively([&] { product.emplace(runtime, operands, plan, staging, to); });
  }
  {
    const auto span = runtime.recorder.phase("load");
    product->load();
  }
  Outcome outcome;
  std::optional<Agreed> agreed;
  std::optional<std::uint64_t> checksum;
  bool repeatable = true;
  outcome.repetitions =
      measure::repeat(runtime.options, session, runtime.recorder, [&](bool timed) {
        const auto span = runtime.recorder.phase(timed ? "stream" : "warm-up", product->uploaded());
        product->run();
        repeatable = repeatable && (!checksum || *checksum == product->checksum());
        checksum = product->checksum();
      });
  {
    const auto span = runtime.recorder.phase("verify");
    agreed = agree(session, product->verdict());
  }
  const double flops = 2.0 * static_cast<double>(operands.m) * static_cast<double>(operands.n) *
                       static_cast<double>(operands.k);
  outcome.flops = flops;
  outcome.elements = operands.m * operands.n;
  const std::uint64_t c_bytes = outcome.elements * gemm::accumulator_bytes(operands.precision);
  outcome.bytes = operands.m * operands.k * problem.a.element_bytes +
                  operands.k * operands.n * problem.b.element_bytes + c_bytes;
  outcome.ceilings = loaded(std::move(limits), session, plan, product->uploaded(), c_bytes, flops);
  if (session.max(repeatable ? 0 : 1) > 0 && agreed->failure.empty()) {
    agreed->failure = "the repetitions differ from one another";
  }
  outcome.verified = agreed->failure.empty();
  if (!std::isfinite(agreed->squares) && agreed->unchecked == 0 && session.rank() == 0) {
    runtime.log.warn("C, or the sum of its squares, is not finite: it overflows");
  }
  outcome.verdict = outcome.verified
                        ? fmt::format(
                              "every row of C agrees with A (B x) in each column of tiles, "
                              "at most {:.2g} of the bound away",
                              agreed->worst)
                        : agreed->failure;
  if (outcome.verified && agreed->unchecked > 0) {
    outcome.verdict += fmt::format(
        "; {} rows of tiles could not be checked, since their operands are not all finite, or too "
        "small for their squares",
        agreed->unchecked);
    if (session.rank() == 0) runtime.log.warn(outcome.verdict);
  }
  const auto integer = [](std::uint64_t x) { return static_cast<std::int64_t>(x); };
  outcome.resolved = {{"pipeline.slot", integer(product->slot_bytes())},
                      {"pipeline.slots", integer(staging.slots)},
                      {"pipeline.readers", integer(staging.readers)},
                      {"pipeline.gpu-memory", integer(problem.device_memory)}};
  report(operands, plan, *agreed, outcome);
  describe(*operands.a, "a", operands.transpose_a, outcome);
  describe(*operands.b, "b", operands.transpose_b, outcome);
  if (operands.c) describe(*operands.c, "c", false, outcome);
  return outcome;
}

}  // namespace shardstream::workloads
