#include "workloads/product/task.hpp"

#include <fmt/format.h>

#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "kernels/gemm/grid.hpp"
#include "measure/source_ceilings.hpp"
#include "pipeline/options.hpp"
#include "workloads/product/checkpoint/taken_tiles.hpp"
#include "workloads/product/limits.hpp"
#include "workloads/product/plan/plan.hpp"

namespace shardstream::workloads {
namespace {

using gemm::Precision;

/// Gflop/s of products of tiles, about an H100's; on the host backend those of a few cores.
double assumed_gflops(Precision precision, bool on_host) {
  switch (precision) {
    case Precision::fp64:
      return on_host ? 200 : 55'000;
    case Precision::fp32:
      return on_host ? 400 : 50'000;
    case Precision::tf32:
      return on_host ? 400 : 330'000;
    case Precision::bf16:
    case Precision::fp16:
      return on_host ? 400 : 650'000;
    case Precision::int8:
      return on_host ? 350 : 1'200'000;
    case Precision::fp32x3:
      return on_host ? 130 : 110'000;
  }
  throw ContractError("every precision has an assumed rate");
}

std::uint64_t tiles_of(const GemmPlan& plan) {
  return plan.count_tiles({{0, plan.tile_rows}, {0, plan.tile_columns}});
}

class ProductTask : public Task {
 public:
  ProductTask(std::string_view name, const Options& options, GemmOperands operands)
      : name_(name), options_(options), operands_(std::move(operands)) {}

  io::Origin inputs() const override { return inputs_of(operands_); }

  std::string identity() const override {
    std::vector<std::string> matrices;
    for (const auto* matrix : {operands_.a.get(), operands_.b.get(), operands_.c.get()}) {
      if (matrix == nullptr) continue;
      matrices.push_back(fmt::format("{} {}", extents(*matrix), name_of(matrix->type())));
    }
    return fmt::format("{}", fmt::join(matrices, ", "));
  }

  std::optional<OutputMatrix> output() const override {
    if (!options_.flag("output.store")) return std::nullopt;
    return OutputMatrix{"C", gemm::accumulator_type(operands_.precision), operands_.m, operands_.n};
  }

  bool resumable() const override { return true; }

  Prediction predict(measure::Machine& machine) const override {
    const GemmRates rates = rates_of(machine);
    const std::uint64_t limit =
        pipeline::device_limit(options_, {.device_memory = machine.device_memory(options_)});
    const GemmProblem problem =
        problem_of(operands_, options_, machine.ranks(), limit, machine.on_host());
    const GemmPlan plan = plan_gemm(problem, rates, 0);
    Prediction prediction{.lines = describe(plan), .warnings = {}, .seconds = plan.seconds};
    if (std::string idle = idle_ranks(plan); !idle.empty()) {
      prediction.warnings.push_back(std::move(idle));
    }
    const io::Fingerprint print = fingerprint(operands_, options_, name_, plan);
    prediction.checkpoints = {
        .unit = "super-tile",
        .units = plan.super_tiles(),
        .journal_bytes =
            machine.ranks() * io::journal_bytes(print, {ceil_div(tiles_of(plan), machine.ranks()),
                                                        plan.super_tiles(), tile_record}),
        .kept = [print, problem, rates, stores = problem.stores_c](const io::Checkpoint& earlier) {
          io::expect_same_computation(earlier, print, stores, of_machine);
          std::vector<GemmPlan> plans;
          for (std::uint64_t rank = 0; rank < problem.ranks; ++rank) {
            plans.push_back(plan_gemm(problem, rates, rank));
          }
          return kept_tiles(count_kept(plans, earlier), earlier.pieces.size());
        }};
    return prediction;
  }

  Outcome run(runtime::Runtime& runtime, const Sinks& sinks) override {
    return run_product(runtime, operands_, name_, sinks);
  }

 private:
  GemmRates rates_of(measure::Machine& machine) const {
    const Precision precision = operands_.precision;
    const bool on_host = machine.on_host();
    const std::string multiply = fmt::format("multiply_{}", name_of(precision));
    machine.go_by({"link_up", "link_down", "panel_read", "all_gather", multiply});
    machine.compare("panel_read", reading_of(operands_, options_));
    const gemm::Tile tile =
        gemm::tile_for(operands_.m, operands_.n, operands_.k, precision, on_host);
    machine.compare(multiply, words_of(tile),
                    [&](const std::string& then) { return is_similar(then, tile); });
    machine.mind(multiply);
    return {.link_up = machine.limited(machine.rate("link_up"), "panel_read", "GB/s"),
            .link_down = machine.rate("link_down"),
            .gather = machine.ranks() > 1 ? machine.gather_rate() : 1e12,
            .flops = machine.rate(multiply, assumed_gflops(precision, on_host), "Gflop/s"),
            .gathers_block = machine.transport() == comm::Transport::mpi};
  }

  const std::string name_;
  const Options& options_;
  const GemmOperands operands_;
};

}  // namespace

std::unique_ptr<Task> open_product(std::string_view name, const Options& options,
                                   GemmOperands operands) {
  check_operands(operands);
  return std::make_unique<ProductTask>(name, options, std::move(operands));
}

}  // namespace shardstream::workloads
