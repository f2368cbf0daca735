#include "workloads/product/task.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "core/shard.hpp"
#include "core/text.hpp"
#include "kernels/gemm/grid.hpp"
#include "pipeline/options.hpp"
#include "workloads/product/checkpoint/taken_tiles.hpp"
#include "workloads/product/limits.hpp"
#include "workloads/product/plan/plan.hpp"

namespace shardstream::workloads {
namespace {

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
    const GemmRates rates = rates_of(machine, operands_, options_);
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
