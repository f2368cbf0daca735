#include "workloads/product/product_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "kernels/gemm/grid.hpp"
#include "measure/sample.hpp"
#include "pipeline/pipeline_options.hpp"
#include "workloads/default_fill.hpp"
#include "workloads/product/checkpoint/finished_tiles.hpp"
#include "workloads/product/engine/engine.hpp"
#include "workloads/product/engine/normalization/normalizer.hpp"
#include "workloads/product/plan/product_plan.hpp"
#include "workloads/product/product.hpp"
#include "workloads/product/product_limits.hpp"
#include "workloads/product/product_report.hpp"

namespace shardstream::workloads::product {
namespace {

/// Throws UsageError if products run on CPUs and the program has no library for them.
void require_library(const runtime::Runtime& runtime, const std::string& name) {
  if (runtime.resources.backend == Backend::host && !gemm::host_multiply_exists()) {
    throw UsageError(
        fmt::format("{} on CPUs needs a CBLAS, and this program was built without one: install "
                    "OpenBLAS and build again, or pass --device.backend cuda",
                    name));
  }
}

/// Announces what this process will read: its own rows of A, and all of B, since it reads a part of
/// every block of B.
void prepare(const Operands& operands, const Plan& plan) {
  const gemm::Tile& tile = plan.problem().tile;
  Range own = elements_of(plan.part.rows, tile.m, operands.m);
  if (own.count == 0) own.first = 0;
  operands.a->prepare(operands.transpose_a ? Range{0, operands.a->rows()} : own);
  operands.b->prepare({0, operands.b->rows()});
}

/// The decisions of a run before it begins.
struct Prepared {
  Limits limits;
  Plan plan;
  pipeline::StagingSizes staging;
  std::unique_ptr<gemm::MultiplyPlan> multiply_plan;
  std::optional<FasterChoice> faster = {};  ///< faster_precision()
};

/// Measures the machine's limits and plans with them. Collective.
Prepared plan_run(runtime::Runtime& runtime, const Operands& operands, const std::string& name) {
  const ranks::Session& session = runtime.session;
  const Backend backend = runtime.resources.backend;
  const int compute_capability = runtime.device->info().compute_capability;
  session.collectively([&] {
    require_library(runtime, name);
    check_units(operands.precision, compute_capability);
  });
  const DeviceMemory memory = device_memory_of(operands, runtime.options, runtime.resources);
  const std::uint64_t limit = memory.limit;
  const auto min_of = [&](std::uint64_t own) {
    return static_cast<std::uint64_t>(-session.max(-static_cast<double>(own)));
  };
  const std::uint64_t min_limit = min_of(limit);
  const auto rank = static_cast<std::uint64_t>(session.rank());
  Problem problem;
  // A problem that cannot fit is rejected before anything is measured.
  session.collectively([&] {
    problem = problem_of(operands, runtime.options, static_cast<std::uint64_t>(session.size()),
                         {min_limit, memory.host_bytes}, backend);
    (void)make_plan(problem, {1, 1, 1, 1}, rank);
  });
  const pipeline::StagingSizes staging = stage(problem, runtime.options, runtime.resources);
  // Ranks may have unequal numbers of CPUs, and the plan must be the same on all of them.
  Ranks& ranks = problem.ranks;
  ranks.read_bytes = min_of(ranks.read_bytes);
  ranks.written_bytes = min_of(ranks.written_bytes);
  ranks.writers = static_cast<unsigned>(min_of(ranks.writers));
  Prepared prepared{.limits = measure_limits(runtime, operands, problem.tile, staging, limit),
                    .plan = {},
                    .staging = staging,
                    .multiply_plan = nullptr};
  const Rates rates = planning_rates(runtime, operands, prepared.limits);
  session.collectively([&] {
    prepared.plan = make_plan(problem, rates, rank);
    prepare(operands, prepared.plan);
    prepared.multiply_plan = gemm::make_multiply_plan(operands.precision, problem.tile, backend);
  });
  if (session.rank() == 0) {
    prepared.faster = faster_precision(prepared.plan, rates, compute_capability);
    for (const std::string& warning : warnings_of(operands, prepared.plan)) {
      runtime.log.warn(warning);
    }
  }
  return prepared;
}

/// Throws UsageError if no variable of a pairwise product has a value.
void reject_empty(const Operands& operands, const Agreed& agreed) {
  if (!agreed.failure.empty() || agreed.counts.max > 0) return;
  throw UsageError(
      fmt::format("all values of {} are missing: name other data", operands.a->name()));
}

/// Whether the run computes once. A run that repeats has nothing to resume from.
bool computes_once(const runtime::Runtime& runtime) {
  return measure::sampling(runtime.options).is_single();
}

/// Begins the journal of a run that computes once, and takes over the tiles that an interrupted run
/// has finished: the plan loses the super-tiles that are done. Collective.
std::vector<FinishedTile> take_over_tiles(runtime::Runtime& runtime, const Operands& operands,
                                          const std::string& name, const RunFiles& files,
                                          Prepared& prepared) {
  const ranks::Session& session = runtime.session;
  const Resume& resume = *files.resume;
  Plan& plan = prepared.plan;
  if (!computes_once(runtime)) {
    if (resume.earlier != nullptr && session.rank() == 0) {
      runtime.log.warn(
          "an interrupted run has left a checkpoint, but a run with measure.repeat or "
          "measure.warmup starts over: leave them out to resume");
    }
    return {};
  }
  io::Fingerprint print = fingerprint(operands, runtime.options, name, plan);
  print.emplace_back(of_machine[0], runtime.device->info().name);
  print.emplace_back(of_machine[1], prepared.multiply_plan->algorithm());
  for (auto& [key, value] : print) value = session.broadcast(value);  // as rank 0 sees the files
  session.collectively([&] {
    resume.journal->begin(std::move(print), resume.earlier,
                          journal_extent(plan, plan.numbered_tiles()));
  });
  if (resume.earlier == nullptr) return {};
  const auto span = runtime.recorder.phase("resume", measure::PhaseKind::useful);
  auto taken = take_over(session, *resume.earlier, files.outputs, *resume.journal, runtime.log,
                         prepared.staging.readers, plan);
  resume.taken_over();
  return taken;
}

/// Whether a run that leaves out samples finds them before it multiplies. Otherwise it assumes that
/// no value is missing if none of the first samples is, and its tiles do not count as finished for
/// a checkpoint until it knows better. So a long product finds them first, if that takes little of
/// its time. A resumed run does, too: the variables with missing values may be in finished tiles.
bool finds_samples_first(const runtime::Runtime& runtime, const Plan& plan, const RunFiles& files) {
  if (!computes_once(runtime)) return false;
  const TimePrediction& predicted = plan.prediction;
  return files.resume->earlier != nullptr ||
         predicted.compute_seconds > 4 * predicted.upload_seconds;
}

/// Warns of values that may be missing in the matrices. Collective.
void warn_of_fill_values(runtime::Runtime& runtime, const Operands& operands, unsigned readers) {
  std::vector<std::string> looked_at;
  for (const io::Matrix* matrix : {operands.a.get(), operands.b.get(), operands.c.get()}) {
    if (matrix == nullptr || std::ranges::find(looked_at, matrix->name()) != looked_at.end()) {
      continue;
    }
    sample_and_warn(runtime, matrix->source(), readers);
    looked_at.push_back(matrix->name());
  }
}

/// This rank's part of the product, with its memory: nothing if all of it was taken over.
class RankProduct {
 public:
  /// Allocates and loads. Collective.
  RankProduct(runtime::Runtime& runtime, const Operands& operands, const Prepared& prepared,
              const RunFiles& files)
      : runtime_(runtime),
        finds_samples_first_(finds_samples_first(runtime, prepared.plan, files)) {
    if (operands.normalizes()) normalizer_.emplace(runtime, operands, prepared.staging.readers);
    if (prepared.plan.super_tiles() == 0) return;
    {
      const auto span = runtime.recorder.phase("allocate", measure::PhaseKind::useful);
      runtime.session.collectively([&] {
        engine_.emplace(runtime, operands, prepared.plan, *prepared.multiply_plan, prepared.staging,
                        files.outputs, computes_once(runtime) ? files.resume->journal : nullptr);
      });
    }
    const auto span = runtime.recorder.phase("load", measure::PhaseKind::useful);
    engine_->load();
    const bool held = pipeline::mode(runtime.options) != pipeline::Mode::stream;
    if (normalizer_ && held) normalizer_->load();
  }

  /// One repetition. Collective.
  void run(bool timed) {
    if (normalizer_ && finds_samples_first_) {
      const auto span = runtime_.recorder.phase("scan", measure::PhaseKind::useful);
      normalizer_->find_samples();
    }
    const auto span = runtime_.recorder.phase(timed ? "stream" : "warm-up",
                                              measure::PhaseKind::useful, uploaded());
    if (!engine_) return;
    normalizer_ ? normalizer_->run(*engine_) : engine_->run();
    repeatable_ = repeatable_ && (!checksum_ || *checksum_ == engine_->checksum());
    checksum_ = engine_->checksum();
  }

  std::uint64_t uploaded() const { return engine_ ? engine_->uploaded() : 0; }
  bool is_repeatable() const { return repeatable_; }  ///< all repetitions had the same bits
  double rounding_error() { return engine_ ? engine_->rounding_error() : 0; }
  CheckSummary checks() const { return engine_ ? engine_->checks() : CheckSummary{}; }
  RankRecord record(const Prepared& prepared, bool resumed, std::vector<FinishedTile> taken) {
    return {.computed = engine_.has_value(),
            .min_uploads = std::min(uploaded(), prepared.plan.traffic.min_uploads),
            // Without an engine there are no slots: those that the run would have had.
            .slot_bytes = engine_ ? engine_->slot_bytes() : prepared.staging.slot_bytes,
            .second_pass_variables = normalizer_ ? normalizer_->renormalized() : 0,
            .rounding_error = rounding_error(),
            .samples = normalizer_ ? &normalizer_->samples() : nullptr,
            .not_finite = {},
            .resumed = resumed,
            .taken = std::move(taken)};
  }

 private:
  runtime::Runtime& runtime_;
  std::optional<Engine> engine_;
  std::optional<Normalizer> normalizer_;
  bool finds_samples_first_;
  std::optional<std::uint64_t> checksum_;  // of the latest repetition
  bool repeatable_ = true;
};

}  // namespace

Outcome run(runtime::Runtime& runtime, const Operands& operands, const std::string& name,
            const RunFiles& files) {
  VariableNames names;
  if (operands.symmetric) names = name_variables(operands);
  if (runtime.session.rank() == 0) {
    for (const std::string& warning : names.warnings) runtime.log.warn(warning);
  }
  Prepared prepared = plan_run(runtime, operands, name);
  std::vector<FinishedTile> taken = take_over_tiles(runtime, operands, name, files, prepared);
  RankProduct part(runtime, operands, prepared, files);
  Outcome outcome;
  outcome.samples = measure::sample(
      runtime.session, measure::sampling(runtime.options), [&](bool timed) { part.run(timed); },
      &runtime.recorder);
  const bool resumed = computes_once(runtime) && files.resume->earlier != nullptr;
  RankRecord record = part.record(prepared, resumed, std::move(taken));
  Agreed agreed;
  {
    const auto span = runtime.recorder.phase("verify", measure::PhaseKind::useful);
    CheckSummary checks = part.checks();
    for (const FinishedTile& tile : record.taken) checks.add(tile);
    agreed = agree(runtime.session, prepared.plan, checks, part.is_repeatable());
    if (operands.pairwise()) {
      runtime.session.collectively([&] { reject_empty(operands, agreed); });
    }
    if (operands.symmetric && agreed.unchecked > agreed.overflowed) {
      record.not_finite =
          first_not_finite(runtime, operands, record.samples, prepared.staging.readers);
    }
    warn_of_fill_values(runtime, operands, prepared.staging.readers);
  }
  const ComputedProduct computed{.operands = operands,
                                 .name = name,
                                 .plan = prepared.plan,
                                 .staging = prepared.staging,
                                 .stored = !files.outputs.empty(),
                                 .names = names};
  conclude(runtime, computed, std::move(prepared.limits), record, agreed, outcome);
  if (prepared.faster) runtime.log.info(words_of(*prepared.faster));
  return outcome;
}

}  // namespace shardstream::workloads::product
