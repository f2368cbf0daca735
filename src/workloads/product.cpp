#include "workloads/product.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "kernels/gemm/factor.hpp"
#include "measure/repeat.hpp"
#include "pipeline/options.hpp"
#include "workloads/gemm_product.hpp"
#include "workloads/normalizer.hpp"
#include "workloads/product_limits.hpp"
#include "workloads/taken_tiles.hpp"

namespace shardstream::workloads {
namespace {

namespace fs = std::filesystem;

// ---------------------------------------------------------------- what is multiplied

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

/// What generated matrices are made of for a precision.
ElementType generated_type(gemm::Precision precision) {
  if (precision == gemm::Precision::fp64) return ElementType::f64;
  return precision == gemm::Precision::int8 ? ElementType::i8 : ElementType::f32;
}

/// The precision that holds all values of a type.
gemm::Precision safe_precision(ElementType type) {
  return type == ElementType::f32 || type == ElementType::u8 || type == ElementType::i8
             ? gemm::Precision::fp32
             : gemm::Precision::fp64;
}

void check_whole_numbers(const GemmOperands& operands) {
  for (const io::Matrix* matrix : {operands.a.get(), operands.b.get()}) {
    if (matrix->type() == ElementType::i8) continue;
    throw UsageError(fmt::format(
        "int8 multiplies whole numbers of 8 bits (i8), and {} is {}: pass --gemm.precision {}, or "
        "--input.type i8 if its values are whole and from -128 to 127",
        matrix->name(), name_of(matrix->type()), name_of(safe_precision(matrix->type()))));
  }
  if (operands.k > gemm::most_int8_k) {
    throw UsageError(
        fmt::format("sums of {} products in int8 can exceed 32 bits, in which they are added; at "
                    "most {} cannot: pass --gemm.precision fp32 or fp64, or cut the matrices",
                    operands.k, gemm::most_int8_k));
  }
  if (operands.alpha != 1 || operands.beta != 0 || operands.normalizes()) {
    throw UsageError(
        "int8 gives the sums of products as they are, whole numbers: leave out alpha, beta, "
        "centring, scaling and divisors, or pass --gemm.precision fp32 or fp64");
  }
}

/// A file as it is now: which one, how large, how old. Values are short, so that a message can show
/// them.
void add_file(io::Fingerprint& to, const std::string& key, const fs::path& file) {
  std::error_code error;
  to.emplace_back(key + "'s file", fs::weakly_canonical(file, error).string());
  to.emplace_back(key + "'s size", fmt::format("{} bytes", fs::file_size(file, error)));
  const auto written =
      std::chrono::file_clock::to_sys(fs::last_write_time(file, error)).time_since_epoch().count();
  to.emplace_back(key + "'s time of writing", fmt::format("{} ns since 1970", written));
}

/// To be raised when tiles that an earlier version of the program has finished would now have other
/// bits, which nothing else in the fingerprint tells.
constexpr int arithmetic_version = 1;

// ---------------------------------------------------------------- what came of it

/// Operations of products that a tile was made of, without padding.
double flops_of(const io::FinishedTile& tile, const GemmPlan& plan) {
  const GemmProblem& problem = plan.problem;
  const std::uint64_t row = tile.tile / plan.tile_columns, column = tile.tile % plan.tile_columns;
  const Range rows = elements_of({row, 1}, problem.tile.m, problem.m);
  const Range columns = elements_of({column, 1}, problem.tile.n, problem.n);
  return 2.0 * static_cast<double>(rows.count) * static_cast<double>(columns.count) *
         static_cast<double>(problem.k);
}

/// All ranks' verdicts as one.
struct Agreed {
  std::string failure;
  double worst, smallest_caught, squares = 0;
  std::uint64_t rows;  ///< of all computed tiles, which are checked one by one
  std::uint64_t unchecked, checksum;

  Verification verification() const {
    if (!failure.empty()) return Verification::failed;
    if (unchecked == 0) return Verification::passed;
    return unchecked < rows ? Verification::partly : Verification::impossible;
  }
};

/// Of all computed tiles.
std::uint64_t rows_of_tiles(const GemmPlan& plan) {
  const GemmProblem& problem = plan.problem;
  std::uint64_t rows = 0;
  for (std::uint64_t row = 0; row < plan.tile_rows; ++row) {
    rows += elements_of({row, 1}, problem.tile.m, problem.m).count *
            plan.count_tiles({{row, 1}, {0, plan.tile_columns}});
  }
  return rows;
}

/// Collective.
Agreed agree(const launch::Session& session, const GemmPlan& plan, const GemmVerdict& mine) {
  Agreed all{.failure = {},
             .worst = session.max(mine.worst),
             .smallest_caught = session.max(mine.smallest_caught),
             .rows = rows_of_tiles(plan),
             .unchecked = session.sum(mine.unchecked),
             .checksum = session.sum(mine.checksum)};
  for (const std::string& failure : session.gather(mine.failure)) {
    if (all.failure.empty()) all.failure = failure;
  }
  // In the order of the tiles, whoever had them. As bytes, since ranks may have more or fewer.
  std::vector<GemmVerdict::Squares> squares;
  const auto* const mine_bytes = reinterpret_cast<const char*>(mine.squares.data());
  for (const std::string& bytes : session.gather(
           std::string(mine_bytes, mine.squares.size() * sizeof(GemmVerdict::Squares)))) {
    const std::size_t before = squares.size();
    squares.resize(before + bytes.size() / sizeof(GemmVerdict::Squares));
    std::memcpy(squares.data() + before, bytes.data(), bytes.size());
  }
  std::ranges::sort(squares, {}, &GemmVerdict::Squares::tile);
  for (const auto& [tile, sum] : squares) all.squares += sum;
  return all;
}

/// What `of` says of each operand; once where it says the same of all.
template <class Of>
std::string of_all(const GemmOperands& operands, const Of& of) {
  std::vector<std::string_view> said;
  for (const auto* matrix : {operands.a.get(), operands.b.get(), operands.c.get()}) {
    if (matrix != nullptr) said.push_back(of(*matrix));
  }
  const bool alike = std::ranges::all_of(said, [&](const auto& one) { return one == said[0]; });
  return alike ? std::string(said[0]) : join(said, ",");
}

/// What options came to, but for those that only the product knows.
void resolve(const GemmOperands& operands, const GemmPlan& plan, const pipeline::Ring& staging,
             Outcome& outcome) {
  const auto integer = [](std::uint64_t x) { return static_cast<std::int64_t>(x); };
  outcome.resolved = {
      {"gemm.decomposition", std::string(name_of(plan.decomposition))},
      {"gemm.box", name_of(plan.box)},
      {"input.type", of_all(operands, [](const auto& matrix) { return name_of(matrix.type()); })},
      {"input.read", of_all(operands,
                            [](const auto& matrix) {
                              return std::string_view(matrix.past_cache() ? "direct" : "cached");
                            })},
      {"pipeline.slots", integer(staging.slots)},
      {"pipeline.readers", integer(staging.readers)},
      {"pipeline.gpu-memory", integer(plan.problem.device_memory)}};
  for (const auto& [key, value] : operands.resolved) outcome.resolved.emplace_back(key, value);
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

std::string verdict_of(const Agreed& agreed) {
  constexpr const char* why =
      "their operands are not all finite, or too small for their squares, or their products are "
      "too large for C's type";
  switch (agreed.verification()) {
    case Verification::failed:
      return agreed.failure;
    case Verification::impossible:
      return fmt::format("no row of C could be checked: {}", why);
    case Verification::partly:
      return fmt::format(
          "{} of {} rows of tiles could not be checked: {}; all others agree with A (B x), at most "
          "{:.2g} of the bound away",
          agreed.unchecked, agreed.rows, why, agreed.worst);
    case Verification::passed:
      return fmt::format(
          "every row of C agrees with A (B x) in each column of tiles, at most {:.2g} of the bound "
          "away",
          agreed.worst);
  }
  throw ContractError("a verification without a word");
}

void report(const GemmOperands& operands, const std::string& name, const GemmPlan& plan,
            const Agreed& agreed, Outcome& outcome) {
  const auto integer = [](std::uint64_t x) { return static_cast<std::int64_t>(x); };
  const double norm = std::sqrt(agreed.squares);
  const double rms =
      norm / std::sqrt(static_cast<double>(operands.m) * static_cast<double>(operands.n));
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const bool checked = outcome.verified != Verification::impossible;
  // The check is of the product itself; alpha scales what it catches in C. It is no share of what
  // is not finite.
  double caught = rms > 0 ? std::abs(operands.alpha) * agreed.smallest_caught / rms : 0;
  if (!checked || !std::isfinite(rms)) caught = nan;
  const std::string checksum = fmt::format("{:016x}", agreed.checksum);
  Table table(name, {{"output", ColumnType::text},
                     {"norm", ColumnType::real},
                     {"checksum", ColumnType::text},
                     {"validated", ColumnType::integer},
                     {"max_error", ColumnType::real},
                     {"tolerance", ColumnType::real},
                     {"smallest_caught", ColumnType::real}});
  table.add({std::string("C"), norm, checksum,
             std::int64_t{outcome.verified == Verification::passed}, checked ? agreed.worst : nan,
             1.0, caught});
  outcome.results.push_back(std::move(table));
  const auto number = [&](const char* key, std::uint64_t value) {
    outcome.metrics.push_back({key, fmt::format("{}", value)});
  };
  number("m", operands.m);
  number("n", operands.n);
  number("k", operands.k);
  outcome.metrics.push_back({"precision", std::string(name_of(operands.precision))});
  outcome.metrics.push_back({"decomposition", std::string(name_of(plan.decomposition))});
  outcome.metrics.push_back({"c_norm", fmt::format("{}", norm)});
  outcome.metrics.push_back({"c_checksum", checksum});
  if (agreed.unchecked > 0) number("unchecked_rows", agreed.unchecked);
  outcome.metrics.push_back({"smallest_caught", fmt::format("{:.3g}", caught)});
  outcome.metrics.push_back(
      {"uploads_by_least", fmt::format("{:.4f}", static_cast<double>(plan.uploads) /
                                                     static_cast<double>(plan.least_uploads))});
  outcome.attributes.insert(outcome.attributes.end(),
                            {{"m", integer(operands.m)},
                             {"n", integer(operands.n)},
                             {"k", integer(operands.k)},
                             {"precision", std::string(name_of(operands.precision))},
                             {"decomposition", std::string(name_of(plan.decomposition))},
                             {"box", name_of(plan.box)},
                             {"alpha", operands.alpha},
                             {"unchecked_rows", integer(agreed.unchecked)},
                             {"tile_m", integer(plan.problem.tile.m)},
                             {"tile_n", integer(plan.problem.tile.n)},
                             {"tile_k", integer(plan.problem.tile.k)},
                             {"blocks_of_k", integer(plan.blocks)},
                             {"plan", lines(plan)}});
}

void refuse_modes(const runtime::Runtime& runtime, const std::string& name) {
  if (runtime.resources.device_is_host && !gemm::host_multiply_exists()) {
    throw UsageError(
        fmt::format("this program was built without a CBLAS, so that {} needs GPUs: install "
                    "OpenBLAS and build again, or pass --device.backend cuda",
                    name));
  }
  const auto mode = pipeline::mode(runtime.options);
  if (mode != pipeline::Mode::stream && mode != pipeline::Mode::pageable) {
    throw UsageError(fmt::format(
        "{} takes matrices from where they are or from ordinary memory: pass --pipeline.mode "
        "stream or pageable, not {}",
        name, runtime.options.text("pipeline.mode")));
  }
}

/// Says what this process will read. Of A its own rows, of B all, since each block has a part.
void prepare(const GemmOperands& operands, const GemmPlan& plan) {
  const gemm::Tile& tile = plan.problem.tile;
  Range own = elements_of(plan.rows, tile.m, operands.m);
  if (own.count == 0) own.first = 0;
  operands.a->prepare(operands.transpose_a ? Range{0, operands.a->rows()} : own);
  operands.b->prepare({0, operands.b->rows()});
}

/// gemm.box.
std::optional<Box> box_of(const Options& options) {
  const std::string& text = options.text("gemm.box");
  if (text.empty()) return std::nullopt;
  std::vector<std::uint64_t> sides;
  try {
    for (const std::string_view side : split(text, 'x')) sides.push_back(parse_count(side));
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("gemm.box: {} (a box is written as 2x1x4)", error.what()));
  }
  if (sides.size() != 3 || std::ranges::count(sides, 0U) > 0) {
    throw UsageError(fmt::format(
        "gemm.box is {}, not three numbers above 0: write rows x columns x parts of k, as 2x1x4",
        excerpt(text)));
  }
  return Box{sides[0], sides[1], sides[2]};
}

}  // namespace

gemm::Precision precision_of(const Options& options) {
  return *gemm::precision_named(options.text("gemm.precision"));
}

std::unique_ptr<io::Matrix> open_operand(const Options& options, std::string_view key,
                                         std::uint64_t rows, std::uint64_t columns) {
  const gemm::Precision precision = precision_of(options);
  // The type that would hold the value is none that int8 takes.
  const bool bytes = precision == gemm::Precision::int8;
  return io::open_matrix(
      options, key, rows, columns, generated_type(precision),
      bytes ? "pass --gemm.precision fp32 or fp64 in place of int8, and no --input.type" : "");
}

std::string extents(const io::Matrix& matrix) {
  return fmt::format("{} is {} x {}", matrix.name(), matrix.rows(), matrix.columns());
}

void check_operands(const GemmOperands& operands) {
  if (saturating_product(saturating_product(operands.m, operands.n),
                         gemm::accumulator_bytes(operands.precision)) > INT64_MAX) {
    throw UsageError(
        fmt::format("C is {} x {}, which is more than 2^63 bytes: choose smaller sizes", operands.m,
                    operands.n));
  }
  if (operands.precision == gemm::Precision::int8) check_whole_numbers(operands);
}

GemmOperands open_product(const launch::Session& session,
                          const std::function<GemmOperands()>& open) {
  GemmOperands operands;
  session.collectively([&] {
    operands = open();
    check_operands(operands);
  });
  session.collectively([&] { expect_same_operands(session, operands); });
  return operands;
}

GemmProblem problem_of(const GemmOperands& operands, const Options& options, std::uint64_t ranks,
                       std::uint64_t device_memory, bool on_host) {
  constexpr std::array wishes = {Decomposition::automatic, Decomposition::rows, Decomposition::grid,
                                 Decomposition::split_k};
  const auto wish = std::ranges::find(wishes, options.text("gemm.decomposition"),
                                      [](Decomposition each) { return name_of(each); });
  const gemm::Tile tile =
      gemm::tile_for(operands.m, operands.n, operands.k, operands.precision, on_host);
  return {.m = operands.m,
          .n = operands.n,
          .k = operands.k,
          .precision = operands.precision,
          .a = uploaded_operand(operands, false, on_host),
          .b = uploaded_operand(operands, true, on_host),
          .reads_c = operands.c != nullptr,
          .stores_c = options.flag("output.store"),
          .symmetric = operands.symmetric,
          .decomposition = *wish,
          .box = box_of(options),
          .ranks = ranks,
          .device_memory = device_memory,
          .other_bytes =
              (on_host ? 0 : gemm::most_workspace) + Normalizer::device_bytes(operands, tile),
          .on_host = on_host,
          .tile = tile};
}

std::string idle_ranks(const GemmPlan& plan) {
  const std::uint64_t ranks = plan.problem.ranks, busy = plan.box.ranks();
  if (busy == ranks) return {};
  const bool asked = plan.problem.box.has_value();
  return fmt::format(
      "{} of {} ranks are idle, {} (they have no place in the box {}{}): start {} ranks{}",
      ranks - busy, ranks,
      busy + 1 == ranks ? fmt::format("rank {}", busy)
                        : fmt::format("ranks {} to {}", busy, ranks - 1),
      name_of(plan.box), asked ? " that gemm.box asks for" : ", the best for these sizes", busy,
      asked ? ", or leave --gemm.box out" : "");
}

io::Fingerprint fingerprint(const GemmOperands& operands, const Options& options,
                            const std::string& name, const GemmPlan& plan) {
  const gemm::Tile& tile = plan.problem.tile;
  io::Fingerprint made{{"workload", name}};
  const auto add = [&](const std::string& key, const io::Matrix* matrix) {
    if (matrix == nullptr) return;
    made.emplace_back(key, matrix->name());
    made.emplace_back(key + "'s shape", fmt::format("{} x {} {}", matrix->rows(), matrix->columns(),
                                                    name_of(matrix->type())));
    const fs::path file = io::input_file(options, key);
    if (!file.empty()) add_file(made, key, file);
  };
  add("input.a", operands.a.get());
  if (!operands.symmetric) add("input.b", operands.b.get());
  add("input.c", operands.c.get());
  const auto yes = [](bool flag) { return std::string(flag ? "true" : "false"); };
  made.insert(made.end(), {{"input.seed", options.text("input.seed")},
                           {"gemm.precision", std::string(name_of(operands.precision))},
                           {"transposed A", yes(operands.transpose_a)},
                           {"transposed B", yes(operands.transpose_b)},
                           {"centred", yes(operands.center)},
                           {"scaled", yes(operands.scale)},
                           {"alpha", fmt::format("{}", operands.alpha)},
                           {"beta", fmt::format("{}", operands.beta)},
                           {"tile", fmt::format("{} x {} x {}", tile.m, tile.n, tile.k)},
                           {"segments of K", fmt::format("{}", plan.segments)},
                           {"blocks of K", fmt::format("{}", plan.blocks)},
                           {"arithmetic", fmt::format("version {}", arithmetic_version)}});
  return made;
}

bool leaves_checkpoint(const Options& options) {
  return options.count("measure.warmup") == 0 && options.count("measure.repeat") == 1;
}

Outcome run_product(runtime::Runtime& runtime, const GemmOperands& operands,
                    const std::string& name, const io::RangeWriter* to, const Resume& resume) {
  const launch::Session& session = runtime.session;
  const bool on_host = runtime.resources.device_is_host;
  session.collectively([&] { refuse_modes(runtime, name); });
  const std::uint64_t limit = pipeline::device_limit(runtime.options, runtime.resources);
  const auto least_limit = static_cast<std::uint64_t>(-session.max(-static_cast<double>(limit)));
  const auto rank = static_cast<std::uint64_t>(session.rank());
  GemmProblem problem;
  // What never fits is refused before anything is measured.
  session.collectively([&] {
    problem = problem_of(operands, runtime.options, static_cast<std::uint64_t>(session.size()),
                         least_limit, on_host);
    (void)plan_gemm(problem, {1, 1, 1, 1}, rank);
  });
  const pipeline::Ring staging =
      pipeline::staging_ring(runtime.options, runtime.resources, pipeline::Reading::computing);
  ProductLimits limits = measure_limits(runtime, operands, problem.tile, staging, limit);
  GemmPlan plan;
  std::unique_ptr<gemm::MultiplyPlan> library;
  session.collectively([&] {
    plan = plan_gemm(problem, limits.rates(), rank);
    prepare(operands, plan);
    library = gemm::make_multiply_plan(operands.precision, problem.tile, on_host);
  });

  if (const std::string idle = idle_ranks(plan); !idle.empty() && session.rank() == 0) {
    runtime.log.warn(idle);
  }

  // Of a study of repetitions there is nothing to go on from.
  const bool once = leaves_checkpoint(runtime.options);
  const io::Checkpoint* const earlier = once ? resume.earlier : nullptr;
  std::vector<io::FinishedTile> taken;
  if (once) {
    io::Fingerprint print = fingerprint(operands, runtime.options, name, plan);
    print.emplace_back(of_machine[0], runtime.device->info().name);
    print.emplace_back(of_machine[1], library->algorithm());
    for (auto& [key, value] : print) value = session.broadcast(value);  // as rank 0 sees the files
    session.collectively([&] { resume.journal->begin(std::move(print), earlier); });
  } else if (resume.earlier != nullptr && session.rank() == 0) {
    runtime.log.warn("an interrupted run has left a checkpoint, but one that repeats begins anew");
  }
  if (earlier != nullptr) {
    const auto span = runtime.recorder.phase("resume");
    taken = take_over(session, operands, *earlier, to, *resume.journal, staging.readers, plan);
    resume.taken_over();
  }

  std::optional<GemmProduct> product;
  std::optional<Normalizer> normalizer;
  if (plan.super_tiles() > 0) {
    const auto span = runtime.recorder.phase("allocate");
    session.collectively([&] {
      product.emplace(runtime, operands, plan, *library, staging, to,
                      once ? resume.journal : nullptr);
    });
    if (operands.normalizes()) {
      session.collectively([&] { normalizer.emplace(runtime, operands, staging); });
    }
  }
  const bool held = pipeline::mode(runtime.options) == pipeline::Mode::pageable;
  if (product) {
    const auto span = runtime.recorder.phase("load");
    product->load();
    if (normalizer && held) normalizer->run(*product);
  }
  const std::uint64_t uploaded =
      (product ? product->uploaded() : 0) + (normalizer && !held ? normalizer->uploaded() : 0);
  Outcome outcome;
  std::optional<std::uint64_t> checksum;
  bool repeatable = true;
  outcome.repetitions =
      measure::repeat(runtime.options, session, runtime.recorder, [&](bool timed) {
        const auto span = runtime.recorder.phase(timed ? "stream" : "warm-up", uploaded);
        if (!product) return;
        if (normalizer && !held) normalizer->run(*product);
        product->run();
        repeatable = repeatable && (!checksum || *checksum == product->checksum());
        checksum = product->checksum();
      });
  std::optional<Agreed> agreed;
  {
    const auto span = runtime.recorder.phase("verify");
    GemmVerdict verdict = product ? product->verdict() : GemmVerdict{};
    for (const io::FinishedTile& tile : taken) verdict.add(tile);
    agreed = agree(session, plan, verdict);
  }
  const auto all_ranks = [&](double mine) {
    double sum = 0;
    for (const double one : session.gather(std::vector{mine})) sum += one;
    return sum;
  };
  const double whole = all_ranks(plan.flops);
  double taken_flops = 0;
  for (const io::FinishedTile& tile : taken) taken_flops += flops_of(tile, plan);
  outcome.flops = product ? whole - all_ranks(taken_flops) : 0;
  const double left = outcome.flops / whole;  // of the product, where the rest was taken over
  outcome.elements = operands.m * operands.n;
  const std::uint64_t c_bytes = outcome.elements * gemm::accumulator_bytes(operands.precision);
  outcome.bytes = operands.m * operands.k * problem.a.element_bytes + c_bytes;
  if (!operands.symmetric) outcome.bytes += operands.k * operands.n * problem.b.element_bytes;
  const double down = static_cast<double>(c_bytes) / (operands.symmetric && to == nullptr ? 2 : 1);
  const double received = all_ranks(static_cast<double>(plan.received()));
  const double sent_up = all_ranks(static_cast<double>(uploaded));
  if (product) {
    outcome.ceilings =
        loaded(std::move(limits), {sent_up, left * down, left * received, outcome.flops});
  } else {
    outcome.bytes = 0;  // all was taken over
  }
  if (session.max(repeatable ? 0 : 1) > 0 && agreed->failure.empty()) {
    agreed->failure = "the repetitions differ from one another";
  }
  outcome.verified = agreed->verification();
  outcome.verdict = verdict_of(*agreed);
  if (session.rank() == 0) {
    if (!std::isfinite(agreed->squares) && agreed->unchecked == 0) {
      runtime.log.warn("C, or the sum of its squares, is not finite: it overflows");
    }
    if (outcome.verified == Verification::partly || outcome.verified == Verification::impossible) {
      runtime.log.warn(outcome.verdict);
    }
  }
  const auto integer = [](std::uint64_t x) { return static_cast<std::int64_t>(x); };
  resolve(operands, plan, staging, outcome);
  // Where all was taken over there are no slots: those that were asked for
  outcome.resolved.emplace_back("pipeline.slot",
                                integer(product ? product->slot_bytes() : staging.slot_bytes));
  if (normalizer) {
    outcome.attributes.emplace_back("constant_variables", integer(normalizer->constant()));
    if (normalizer->constant() > 0 && session.rank() == 0) {
      runtime.log.warn(fmt::format(
          "{} variables are constant and have no deviation to be divided by: they count as 0",
          normalizer->constant()));
    }
  }
  if (earlier != nullptr) {
    const std::uint64_t tiles = session.sum(taken.size());
    if (tiles < earlier->tiles.size() && session.rank() == 0) {
      runtime.log.warn(fmt::format(
          "{} tiles were finished, but {} are computed again, being in no super-tile that is "
          "whole now: as many ranks and as much --pipeline.gpu-memory as before keep the most",
          earlier->tiles.size(), earlier->tiles.size() - tiles));
    }
    outcome.metrics.push_back({"resumed_tiles", fmt::format("{}", tiles)});
    outcome.attributes.emplace_back("resumed_tiles", integer(tiles));
  }
  report(operands, name, plan, *agreed, outcome);
  describe(*operands.a, "a", operands.transpose_a, outcome);
  if (!operands.symmetric) describe(*operands.b, "b", operands.transpose_b, outcome);
  if (operands.c) describe(*operands.c, "c", false, outcome);
  return outcome;
}

}  // namespace shardstream::workloads
