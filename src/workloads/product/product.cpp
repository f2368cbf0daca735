#include "workloads/product/product.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/digest.hpp"
#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "kernels/gemm/grid.hpp"
#include "kernels/gemm/multiply/factor.hpp"
#include "kernels/gemm/multiply/multiply.hpp"
#include "kernels/gemm/panel/checksum.hpp"
#include "pipeline/pipeline_options.hpp"
#include "workloads/product/checkpoint/finished_tiles.hpp"
#include "workloads/product/described_variables.hpp"
#include "workloads/product/engine/normalization/samples.hpp"
#include "workloads/product/engine/normalization/variable_sums.hpp"
#include "workloads/product/engine/panels.hpp"
#include "workloads/product/plan/description.hpp"
#include "workloads/product/product_limits.hpp"
#include "workloads/product/product_run.hpp"

namespace shardstream::workloads::product {
namespace {

/// The files of an operand as they were when it was opened. Values are short, so that a message can
/// show them. A digest stands for many files.
void add_files(io::Fingerprint& to, const std::string& key, const io::Origin& origin) {
  constexpr std::size_t max_listed = 16;
  if (!origin.files.empty()) to.emplace_back(key + "'s layout", origin.layout);
  if (origin.files.size() > max_listed) {
    std::string all;
    for (const io::InputFile& file : origin.files) {
      all +=
          fmt::format("{}:{} {} {}\n", file.path.string(), file.dataset, file.size, file.modified);
    }
    to.emplace_back(key + "'s files",
                    fmt::format("{} files (digest {})", origin.files.size(), digest_of(all)));
    return;
  }
  for (std::size_t i = 0; i < origin.files.size(); ++i) {
    const io::InputFile& file = origin.files[i];
    const std::string name =
        i == 0 ? key + "'s" : fmt::format("{}'s source '{}':", key, file.path.string());
    if (i > 0) to.emplace_back(name + " data set", file.dataset);
    to.emplace_back(name + " size", fmt::format("{} bytes", file.size));
    to.emplace_back(name + " time of writing", fmt::format("{} ns since 1970", file.modified));
  }
}

/// The kind of the weights with a checksum: their names are written in several ways.
std::string weights_text(const Weights& weights) {
  const std::size_t count = weights.values.size();
  const auto sums = gemm::row_checksums(ElementType::f64, weights.values.data(), count, count);
  const bool of_samples = weights.of == Weights::Of::samples;
  return fmt::format("of {}, checksum {:016x}", of_samples ? "samples" : "variables",
                     sums.matrix_checksum(0));
}

/// Raise this number if a change gives tiles other bits and nothing else in the fingerprint shows
/// it. Checkpoints of earlier versions are then rejected.
constexpr int arithmetic_version = 3;

/// The value of product.box; nothing if it is not set.
std::optional<Box> box_of(const Options& options) {
  const std::string& text = options.text("product.box");
  if (text.empty()) return std::nullopt;
  std::vector<std::uint64_t> sides;
  try {
    for (const std::string_view side : split(text, 'x')) sides.push_back(parse_count(side));
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("product.box: {} (a box is written as 2x1x4)", error.what()));
  }
  if (sides.size() != 3 || std::ranges::count(sides, 0U) > 0) {
    throw UsageError(
        fmt::format("product.box is {}, not three numbers above 0: write the ranks along rows, "
                    "columns and k, for example 2x1x4",
                    excerpt(text)));
  }
  return Box{sides[0], sides[1], sides[2]};
}

std::uint64_t computed_tiles(const Plan& plan) {
  return plan.shape.count_tiles({{0, plan.shape.tile_rows}, {0, plan.shape.tile_columns}});
}

/// One line for each operand, and then the plan.
std::vector<std::string> lines_of(const Operands& operands, const Plan& plan) {
  std::vector<std::string> lines;
  const auto add = [&](std::string_view name, const io::Matrix* matrix) {
    if (matrix == nullptr) return;
    lines.push_back(
        fmt::format("{}: {}, {}", name, matrix->name(), io::shape_text(matrix->source())));
    if (matrix->source().shape().size() == 2) return;
    lines.back() += fmt::format(" as {} x {}", matrix->rows(), matrix->columns());
  };
  add(operands.symmetric ? "data" : "A", operands.a.get());
  if (operands.symmetric) {
    const auto add_indices = [&](const char* name, std::uint64_t count, Weights::Of of) {
      const std::string dimensions =
          names_of_dimensions(operands.a->source(), operands.dimensions_of(of), " x ");
      lines.push_back(fmt::format("{}: {}{}{}", name, count,
                                  dimensions.empty() ? "" : ", the indices of ", dimensions));
    };
    add_indices("samples", operands.k, Weights::Of::samples);
    add_indices("variables", operands.n, Weights::Of::variables);
  } else {
    add("B", operands.b.get());
  }
  add("C before", operands.c.get());
  if (operands.missing == Missing::complete) {
    lines.emplace_back(
        "missing values: complete, without the samples that have some; the data are read once more "
        "if there are any");
  }
  if (operands.pairwise()) {
    lines.emplace_back(
        "missing values: pairwise, each pair has its own samples, and C may be indefinite");
  }
  if (operands.center_over_variables) {
    lines.emplace_back("means: of samples, from a pass over the data before the product");
  }
  if (operands.weights) {
    lines.push_back(
        fmt::format("weights: {}, {}", operands.weights->name, weights_text(*operands.weights)));
  }
  std::ranges::move(describe(plan), std::back_inserter(lines));
  return lines;
}

class ProductTask : public Task {
 public:
  ProductTask(std::string_view name, const Options& options, Operands operands)
      : name_(name), options_(options), operands_(std::move(operands)) {}

  io::Origin inputs() const override { return inputs_of(operands_); }

  std::string identity() const override {
    std::vector<std::string> matrices;
    for (const auto* matrix : {operands_.a.get(), operands_.b.get(), operands_.c.get()}) {
      if (matrix == nullptr) continue;
      matrices.push_back(fmt::format("{} {}", extents(*matrix), io::type_text(matrix->source())));
    }
    if (operands_.weights) matrices.push_back(weights_text(*operands_.weights));
    return fmt::format("{}", fmt::join(matrices, ", "));
  }

  std::vector<OutputArray> outputs() const override {
    if (!options_.flag("output.store")) return {};
    const ElementType type = gemm::accumulator_type(operands_.precision);
    const std::vector<std::uint64_t> shape = {operands_.m, operands_.n};
    std::vector<OutputArray> matrices{{"C", type, shape, labelled_bytes(operands_)}};
    if (operands_.pairwise()) matrices.push_back({"N", count_type(type), shape, 0});
    return matrices;
  }

  bool resumable() const override { return true; }

  Prediction predict(measure::Machine& machine) const override {
    const Rates rates = rates_of(machine, operands_, options_);
    const runtime::Resources resources{
        .threads = machine.threads(),
        .ranks_on_host = static_cast<unsigned>(machine.ranks_on_host()),
        .device_memory = machine.device_memory(options_),
        .process_memory = runtime::process_memory(machine.threads()),
        .backend = machine.backend()};
    const DeviceMemory memory = device_memory_of(operands_, options_, resources);
    Problem problem = problem_of(operands_, options_, machine.ranks(), memory, machine.backend());
    stage(problem, options_, resources);
    const Plan plan = make_plan(problem, rates, 0);
    Prediction prediction{
        .answer = answer(plan),
        .plan = lines_of(operands_, plan),
        .warnings = warnings_of(operands_, plan),
        .seconds = plan.prediction.seconds,
        .device_memory = PredictedMemory{plan.device_bytes, problem.ranks.device_memory},
        .faster = faster_precision(plan, rates)};
    for (const auto& [limit, seconds] : plan.prediction.limits()) {
      prediction.limits.push_back({std::string(limit), seconds});
    }
    const io::Fingerprint print = fingerprint(operands_, options_, name_, plan);
    prediction.checkpoints = {
        .unit = "super-tile",
        .units = plan.super_tiles(),
        .journal_bytes =
            machine.ranks() *
            io::journal_bytes(
                print, journal_extent(plan, ceil_div(computed_tiles(plan), machine.ranks()))),
        .kept = [print, plan](const io::Checkpoint& earlier) {
          io::expect_same_computation(earlier, print, plan.problem().stores_c, of_machine);
          return kept_tiles(count_kept(plan, earlier), earlier.pieces.size());
        }};
    return prediction;
  }

  Outcome run(runtime::Runtime& runtime, const RunFiles& files) override {
    return product::run(runtime, operands_, name_, files);
  }

 private:
  const std::string name_;
  const Options& options_;
  const Operands operands_;
};

}  // namespace

std::unique_ptr<io::Matrix> open_operand(const Options& options, gemm::Precision precision,
                                         std::string_view key, std::uint64_t rows,
                                         std::uint64_t columns, const io::Arrangement& arrange) {
  // Integers take no wider type, so the remedy for values that do not fit is another precision.
  const gemm::PrecisionTraits& row = gemm::traits_of(precision);
  const std::string remedy =
      gemm::sums_integers(precision)
          ? fmt::format("pass --product.precision fp32 or fp64 in place of {}, and no --input.type",
                        row.name)
          : "";
  return io::open_matrix(options, key, rows, columns,
                         {.generated = row.generated, .misfit_remedy = remedy, .arrange = arrange});
}

void reject_size_of_file(const Options& options, std::string_view size, std::string_view matrix) {
  // In the environment or an INI file the option may be meant for another run.
  if (!options.is_on_command_line(size) || !io::names_file(options, matrix)) return;
  throw UsageError(
      fmt::format("{0} is the size of a generated matrix, and {1} names a data set, which has its "
                  "own size: leave {0} out",
                  size, matrix));
}

std::string extents(const io::Matrix& matrix) {
  return fmt::format("{} is {} x {}", matrix.name(), matrix.rows(), matrix.columns());
}

io::Origin inputs_of(const Operands& operands) {
  io::Origin inputs;
  for (const io::Matrix* matrix : {operands.a.get(), operands.b.get(), operands.c.get()}) {
    if (matrix == nullptr) continue;
    io::Origin origin = matrix->origin();
    if (std::string note = note_on_rounding(*matrix, operands); !note.empty()) {
      origin.notes.push_back(std::move(note));
    }
    io::add(inputs, origin);
  }
  if (operands.weights) io::add(inputs, operands.weights->origin);
  return inputs;
}

DeviceMemory device_memory_of(const Operands& operands, const Options& options,
                              const runtime::Resources& resources) {
  if (resources.backend != Backend::host) return {pipeline::device_limit(options, resources)};
  const auto staging = pipeline::staging_sizes(options, resources, pipeline::ReaderWork::computing);
  std::uint64_t bytes =
      saturating_product(staging.slots, staging.slot_bytes + staging.drain_slot_bytes);
  bytes = saturating_sum({bytes, host_bytes_of_samples(operands)});
  for (const auto* const matrix : {&operands.a, &operands.b, &operands.c}) {
    if (!*matrix) continue;
    if (const auto decoding = (*matrix)->decoding()) bytes += decoding->host_bytes(staging.readers);
  }
  const std::uint64_t limit = pipeline::device_limit(options, resources, bytes);
  if (!options.is_auto("pipeline.gpu-memory")) return {limit};
  return {limit, saturating_sum({resources.process_memory, bytes})};
}

Problem problem_of(const Operands& operands, const Options& options, std::uint64_t ranks,
                   DeviceMemory memory, Backend backend) {
  constexpr std::array choices = {Decomposition::automatic, Decomposition::rows,
                                  Decomposition::grid, Decomposition::split_k};
  const auto requested = std::ranges::find(choices, options.text("product.decomposition"),
                                           [](Decomposition each) { return word_of(each); });
  const gemm::Tile tile = operands.tile(backend);
  Problem problem{.m = operands.m,
                  .n = operands.n,
                  .k = operands.k,
                  .precision = operands.precision,
                  .a = uploaded_operand(operands, gemm::Side::a, tile, backend),
                  .b = uploaded_operand(operands, gemm::Side::b, tile, backend),
                  .reads_c = operands.c != nullptr,
                  .stores_c = options.flag("output.store"),
                  .symmetric = operands.symmetric,
                  .sums_variables = operands.normalizes(),
                  .may_lack_elements = operands.may_lack_elements(),
                  .moments = operands.moments(),
                  .tile = tile,
                  .requested = {.decomposition = *requested, .box = box_of(options)},
                  .ranks = {.count = ranks,
                            .device_memory = memory.limit,
                            .host_bytes = memory.host_bytes,
                            .backend = backend,
                            .streams = gemm::multiply_streams(backend)}};
  problem.ranks.other_bytes = (backend == Backend::host ? 0 : gemm::plan_memory(tile)) +
                              Panels::other_bytes(operands, tile) +
                              VariableSums::device_bytes(operands, problem);
  return problem;
}

pipeline::StagingSizes stage(Problem& problem, const Options& options,
                             const runtime::Resources& resources) {
  constexpr std::uint64_t smallest = std::uint64_t{1} << 20, pieces_a_reader = 4;
  auto staging = pipeline::staging_sizes(options, resources, pipeline::ReaderWork::computing);
  const std::uint64_t pieces = pieces_a_reader * staging.readers * problem.ranks.count;
  const auto slot = [&](std::uint64_t bytes, std::uint64_t longest) {
    return std::min(longest, std::max(smallest, std::bit_floor(bytes / pieces)));
  };
  if (options.is_auto("pipeline.slot")) {
    const std::uint64_t a = saturating_product(problem.m, problem.a.element_bytes);
    const std::uint64_t b = saturating_product(problem.n, problem.b.element_bytes);
    const std::uint64_t column = problem.symmetric ? b : std::max(a, a + b);
    staging.slot_bytes = slot(saturating_product(column, problem.k), staging.slot_bytes);
    staging.drain_slot_bytes = slot(saturating_product(saturating_product(problem.m, problem.n),
                                                       gemm::accumulator_bytes(problem.precision)),
                                    staging.drain_slot_bytes);
    // Every row of C costs a writer some time, so that slots of short rows are smaller.
    constexpr std::uint64_t max_rows = 4096;
    staging.drain_slot_bytes = std::min(
        staging.drain_slot_bytes,
        saturating_product({max_rows, problem.tile.n, gemm::accumulator_bytes(problem.precision)}));
  }
  problem.ranks.read_bytes =
      pipeline::is_staged(options) ? saturating_product(staging.readers, staging.slot_bytes) : 0;
  problem.ranks.writers = staging.readers;
  problem.ranks.written_bytes = saturating_product(staging.readers, staging.drain_slot_bytes);
  return staging;
}

std::string idle_ranks(const Plan& plan) {
  const std::uint64_t ranks = plan.problem().ranks.count, inside = plan.shape.box.ranks();
  if (inside < ranks) {
    const bool asked = plan.problem().requested.box.has_value();
    return fmt::format(
        "{} of {} ranks are idle ({} outside the box {}{}): start {}{}", ranks - inside, ranks,
        inside + 1 == ranks ? fmt::format("rank {} is", inside)
                            : fmt::format("ranks {} to {} are", inside, ranks - 1),
        text_of(plan.shape.box), asked ? " of product.box" : ", the best for these sizes",
        counted(inside, "rank"), asked ? ", or leave --product.box out" : "");
  }
  const std::uint64_t busy = plan.shape.busy_ranks();
  if (busy == ranks) return {};
  return fmt::format(
      "{} of {} ranks compute nothing (C has {} x {} tiles for {} x {} ranks): start {}",
      ranks - busy, ranks, plan.shape.tile_rows, plan.shape.tile_columns, plan.shape.box.rows,
      plan.shape.box.columns, counted(busy, "rank"));
}

std::optional<FasterChoice> faster_precision(const Plan& plan, const Rates& rates,
                                             int compute_capability) {
  using gemm::Precision;
  constexpr double clearly = 0.9;
  Problem problem = plan.problem();
  const Precision native = problem.precision;
  if (problem.ranks.backend == Backend::host || problem.moments.pairwise() ||
      (native != Precision::fp64 && native != Precision::fp32)) {
    return {};
  }
  const Precision other = native == Precision::fp64 ? Precision::fp64_int8 : Precision::fp32_int8;
  if (!gemm::has_units(other, compute_capability)) return {};
  const auto assumed = [](Precision of) {
    return gemm::calls_of(of, Backend::cuda).assumed_gflops;
  };
  Rates scaled = rates;
  scaled.flops *= assumed(other) / assumed(native);
  problem.precision = other;
  problem.tile =
      gemm::tile_for(problem.m, problem.n, problem.k, other, Backend::cuda, problem.symmetric);
  problem.ranks.other_bytes += gemm::plan_memory(problem.tile) - gemm::max_workspace;
  try {
    const double seconds = make_plan(problem, scaled, 0).prediction.seconds;
    if (seconds > clearly * plan.prediction.seconds) return {};
    return FasterChoice{"product.precision", std::string(word_of(other)), seconds};
  } catch (const UsageError&) {
    return {};  // the residues do not fit into the memory
  }
}

std::vector<std::string> warnings_of(const Operands& operands, const Plan& plan) {
  std::vector<std::string> warnings = operands.warnings;
  if (std::string idle = idle_ranks(plan); !idle.empty()) warnings.push_back(std::move(idle));
  return warnings;
}

io::Fingerprint fingerprint(const Operands& operands, const Options& options,
                            const std::string& name, const Plan& plan) {
  const gemm::Tile& tile = plan.problem().tile;
  io::Fingerprint made{{"workload", name}};
  const auto add = [&](const std::string& key, const io::Matrix* matrix) {
    if (matrix == nullptr) return;
    // The absolute path, however the user has written it.
    const auto& files = matrix->origin().files;
    made.emplace_back(key, files.empty()
                               ? matrix->name()
                               : files[0].path.string() + io::name_within_file(matrix->source()));
    made.emplace_back(key + "'s rows",
                      fmt::format("dimensions {}", join(matrix->dimensions().rows, ", ")));
    made.emplace_back(key + "'s shape", fmt::format("{} x {} {}", matrix->rows(), matrix->columns(),
                                                    io::type_text(matrix->source())));
    add_files(made, key, matrix->origin());
  };
  add(operands.symmetric ? "input.data" : "input.a", operands.a.get());
  if (!operands.symmetric) add("input.b", operands.b.get());
  add("input.c", operands.c.get());
  const auto yes = [](bool flag) { return std::string(flag ? "true" : "false"); };
  made.insert(
      made.end(),
      {{"input.seed", options.text("input.seed")},
       {"product.precision", std::string(word_of(operands.precision))},
       {"transposed A", yes(operands.transpose_a)},
       {"transposed B", yes(operands.transpose_b)},
       {"centred", yes(operands.center)},
       {"scaled", yes(operands.scale)},
       {"alpha", fmt::format("{}", operands.alpha)},
       {"beta", fmt::format("{}", operands.beta)},
       {"tile", fmt::format("{} x {} x {}{}", tile.m, tile.n, tile.k, words_of_parts(tile))},
       {"segments of K", fmt::format("{}", plan.shape.segments)},
       {"blocks of K", fmt::format("{}", plan.shape.blocks)},
       {"arithmetic", fmt::format("version {}", arithmetic_version)}});
  if (operands.missing == Missing::complete) made.emplace_back("missing values", "complete");
  if (operands.pairwise()) {
    made.emplace_back("missing values",
                      fmt::format("pairwise, divisor {}", static_cast<int>(operands.divisor)));
  }
  if (operands.center_over_variables) made.emplace_back("centred over", "variables");
  if (operands.weights) made.emplace_back("gram.weights", weights_text(*operands.weights));
  return made;
}

std::unique_ptr<Task> open_task(std::string_view name, const Options& options, Operands operands) {
  check_mode(options);
  check_operands(operands);
  return std::make_unique<ProductTask>(name, options, std::move(operands));
}

}  // namespace shardstream::workloads::product
