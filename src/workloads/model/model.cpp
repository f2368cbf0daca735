#include "workloads/model/model.hpp"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "core/units.hpp"
#include "measure/sample.hpp"
#include "workloads/model/law.hpp"
#include "workloads/model/model_report.hpp"
#include "workloads/model/spinner.hpp"

namespace shardstream::workloads {
namespace {

using namespace model;
using measure::PhaseKind;

constexpr std::array rows = {
    OptionRow{"model.work", OptionKind::duration, "1s", "1ms..1000h",
              "Time of the total work on one rank."},
    OptionRow{"model.serial", OptionKind::number, "0.05", "0..1",
              "Serial share of model.work, which rank 0 runs alone while the others wait."},
    OptionRow{"model.overhead", OptionKind::duration, "0s", "0s..1000h",
              "Time that each doubling of the ranks adds on every rank, like communication."},
    OptionRow{"model.imbalance", OptionKind::number, "0", "0..1",
              "Share by which the slowest rank's parallel part exceeds the mean."},
    OptionRow{"model.noise", OptionKind::number, "0", "0..1",
              "Relative standard deviation of each rank's parallel part."},
    OptionRow{"model.seed", OptionKind::count, "1", "0..",
              "Seed of model.noise. Each launch of a study has its own noise."},
    OptionRow{"model.spin", OptionKind::choice, "busy", "busy|sleep",
              "busy occupies the GPU or all CPUs of a rank; sleep waits instead, for more ranks "
              "than cores."},
};

Law law_of(const Options& options) {
  return {.work = options.seconds("model.work"),
          .serial = options.number("model.serial"),
          .overhead = options.seconds("model.overhead"),
          .imbalance = options.number("model.imbalance"),
          .noise = options.number("model.noise")};
}

Draws draws_of(const Options& options) {
  return {.seed = options.count("model.seed"), .replicate = options.count("study.replicate")};
}

/// The repetitions of one rank.
class Repetitions {
 public:
  Repetitions(runtime::Runtime& runtime, const Law& law, const Draws& draws, Spin spin)
      : runtime_(runtime), law_(law), draws_(draws), spinner_(runtime, spin) {}

  /// Collective.
  void run(bool timed) {
    const ranks::Session& session = runtime_.session;
    const auto ranks = static_cast<std::uint64_t>(session.size());
    const auto repetition = timed ? std::optional(done_) : std::nullopt;
    const Parts mine =
        parts_of(law_, draws_, static_cast<std::uint64_t>(session.rank()), ranks, repetition);
    const auto phase = [&](const char* name) { return timed ? name : warm_up; };
    spinner_.reset();
    if (session.rank() == 0) spend(phase("serial"), PhaseKind::useful, mine.serial, Counts::work);
    {
      const auto span = runtime_.recorder.phase(phase("wait"), PhaseKind::waiting);
      session.barrier();
    }
    spend(phase("parallel"), PhaseKind::useful, mine.parallel, Counts::work);
    std::int64_t counted = 0;
    {
      const auto span = runtime_.recorder.phase(phase("combine"), PhaseKind::communication);
      counted = spinner_.sum_of_all();
    }
    spend(phase("overhead"), PhaseKind::communication, mine.overhead, Counts::nothing);
    const std::int64_t asked = counted_of_all(law_, draws_, ranks, repetition);
    if (counted != asked && !wrong_) wrong_ = WrongSum{done_, counted, asked};
    if (!timed) return;
    report_.counted += mine.counted();
    ++done_;
  }

  const RankReport& report() const { return report_; }
  const std::optional<WrongSum>& wrong() const { return wrong_; }

 private:
  using Counts = Spinner::Counts;
  static constexpr const char* warm_up = "warm-up";

  void spend(const char* phase, PhaseKind kind, std::int64_t nanoseconds, Counts counts) {
    const std::int64_t lasted = spinner_.spend(phase, kind, nanoseconds, counts);
    if (phase != warm_up) report_.spent.add(nanoseconds, lasted);
  }

  runtime::Runtime& runtime_;
  const Law law_;
  const Draws draws_;
  Spinner spinner_;
  RankReport report_;
  std::optional<WrongSum> wrong_;
  std::uint64_t done_ = 0;  // timed repetitions
};

class ModelTask : public Task {
 public:
  explicit ModelTask(const Options& options)
      : law_(law_of(options)),
        draws_(draws_of(options)),
        spin_(options.text("model.spin") == "sleep" ? Spin::sleep : Spin::busy) {}

  io::Origin inputs() const override { return {}; }

  std::string identity() const override {
    return fmt::format(
        "a model of {} s, serial share {}, overhead {} s, imbalance {}, noise {} of seed {} and "
        "replicate {}",
        law_.work, law_.serial, law_.overhead, law_.imbalance, law_.noise, draws_.seed,
        draws_.replicate);
  }

  Prediction predict(measure::Machine& machine) const override {
    const std::uint64_t ranks = machine.ranks();
    const Seconds seconds = model::predict(law_, ranks);
    const double serial = law_.serial * law_.work;
    Prediction prediction{
        .answer = {fmt::format("predicted: {} (serial {}, parallel {}, overhead {})",
                               format_duration(seconds.total()), format_duration(seconds.serial),
                               format_duration(seconds.parallel),
                               format_duration(seconds.overhead))},
        .plan = {fmt::format("law: {} + {} / p{} + {} * log2(p) on p ranks",
                             format_duration(serial), format_duration(law_.work - serial),
                             law_.imbalance > 0 || law_.noise > 0 ? " * m(p)" : "",
                             format_duration(law_.overhead))},
        .warnings = {},
        .seconds = seconds.total()};
    if (law_.imbalance > 0 || law_.noise > 0) {
      prediction.plan.push_back(fmt::format(
          "slowest rank: m({}) = {:.4g} times the mean parallel part in the median, with imbalance "
          "{} and noise {}",
          ranks, median_of_slowest(law_, ranks), law_.imbalance, law_.noise));
    }
    return prediction;
  }

  Outcome run(runtime::Runtime& runtime, const RunFiles&) override {
    const ranks::Session& session = runtime.session;
    std::optional<Repetitions> repetitions;
    {
      const auto span = runtime.recorder.phase("allocate", PhaseKind::useful);
      session.collectively([&] { repetitions.emplace(runtime, law_, draws_, spin_); });
    }
    Outcome outcome;
    outcome.samples = measure::sample(
        session, measure::sampling(runtime.options), [&](bool timed) { repetitions->run(timed); },
        &runtime.recorder);
    report(law_, session.gather(std::vector{repetitions->report()}), repetitions->wrong(), outcome);
    return outcome;
  }

 private:
  const Law law_;
  const Draws draws_;
  const Spin spin_;
};

}  // namespace

Workload model_workload() {
  return {.name = "model",
          .summary = "spends time as Amdahl's law says: a known answer for scaling studies",
          .example = "--model.work 2s --model.serial 0.1 -o model.h5",
          .options = {rows},
          .honours = {},
          .data = {},
          .sizes = {},
          .open = [](const Options& options) -> std::unique_ptr<Task> {
            return std::make_unique<ModelTask>(options);
          },
          .grows = {"parallel"},
          .scaled = [](const Options& options, double factor, std::string_view) -> Scaled {
            const Law base = law_of(options), law = model::scaled(base, factor);
            return {.options = {{"model.work", fmt::format("{}s", law.work)},
                                {"model.serial", fmt::format("{}", law.serial)}},
                    .factor = counted_work(law) / counted_work(base)};
          }};
}

}  // namespace shardstream::workloads
