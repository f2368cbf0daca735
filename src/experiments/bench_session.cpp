#include "experiments/bench_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/statistics.hpp"
#include "core/text.hpp"
#include "experiments/available.hpp"
#include "experiments/bench.hpp"
#include "experiments/bench_file.hpp"
#include "experiments/context.hpp"
#include "experiments/endings.hpp"
#include "experiments/expected.hpp"
#include "experiments/gpu_pairs.hpp"
#include "experiments/incomplete.hpp"
#include "experiments/ladders/own_kernel.hpp"
#include "experiments/predictions.hpp"
#include "experiments/slow_ranks.hpp"
#include "experiments/storage/data_file.hpp"
#include "io/hdf5/result_file.hpp"
#include "kernels/kernel.hpp"
#include "report/experiments.hpp"
#include "runtime/provenance.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::experiments {
namespace {

constexpr std::array rows = {
    OptionRow{"measure.repeat", OptionKind::count, "auto", "auto|1..1000000",
              "Timed calls of each case. auto repeats until the median is as precise as "
              "measure.precision."},
    OptionRow{"measure.max-time", OptionKind::duration, "1s", "1ms..",
              "The maximum time that measure.repeat auto spends on a case; with --quick 50 ms."},
    OptionRow{"output.file", OptionKind::text, "", "",
              "The result file; without it, the tables are only printed."},
};

/// An experiment and how it ended; the same on every rank.
struct Finished {
  const Experiment* experiment;
  Figure figure;
  State state = State::measured;
  report::ExperimentResult result = {};
  ExitCode own_kernel = ExitCode::done;  ///< the worst of all ranks
};

/// How the user's own kernel has ended on one rank.
struct OwnKernelEnd {
  ExitCode code = ExitCode::done;
  std::string message = {};
};

/// The results of an experiment on one rank.
struct RankResult {
  Ending ending = {};
  Table table{"rows", {}};
  Figure figure = {};
  std::vector<std::string> notes = {};
  int unconverged = 0;
  OwnKernelEnd own_kernel = {};
};

/// The rows that `run` returns. If the user's own kernel fails, `own_kernel` says so, and the other
/// rows stay.
Table rows_or_incomplete(Table (*run)(Bench&), Bench& bench, OwnKernelEnd& own_kernel) {
  try {
    return run(bench);
  } catch (const Incomplete& end) {
    own_kernel = {end.code(), end.what()};
    return end.rows();
  }
}

measure::Sampling sampling_of(const Options& options, bool quick) {
  measure::Sampling sampling = measure::sampling(options);
  if (quick && options.is_default("measure.max-time")) sampling.max_time = 0.05;
  return sampling;
}

/// A result that has only the texts of the catalogue.
report::ExperimentResult described(const Experiment& experiment) {
  report::ExperimentResult result;
  result.name = experiment.name;
  result.group = experiment.group;
  result.summary = experiment.summary;
  result.reference = experiment.reference;
  return result;
}

void add_figure(report::ExperimentResult& result, const Figure& figure) {
  result.look = word_of(figure.look);
  result.x = figure.x;
  result.y = figure.y;
  result.series = figure.series;
  result.panel = figure.panel;
  result.reference_lines = {figure.reference_lines.begin(), figure.reference_lines.end()};
  result.log = fmt::format("{}{}", figure.log_x ? "x" : "", figure.log_y ? "y" : "");
  result.better = !figure.is_rated ? "neither" : figure.more_is_better ? "more" : "less";
}

/// The result file. On rank 0, which writes it, its destination has the files that experiments
/// read.
io::Destination destination_of(const ranks::Session& session, const Options& options,
                               std::span<const Experiment* const> experiments) {
  io::Destination destination{.path = options.text("output.file"),
                              .contents = io::Contents::result,
                              .overwrite = io::overwrite_of(options)};
  for (const Experiment* experiment : experiments) {
    const std::string_view key = experiment->needs.file;
    if (session.rank() != 0 || key.empty() || options.text(key).empty()) continue;
    const auto files = storage::DataFile(options, key).inputs();
    destination.inputs.insert(destination.inputs.end(), files.begin(), files.end());
  }
  return destination;
}

/// Throws UsageError if an experiment has no case for the values that the user has chosen.
Table with_rows(Table table, const Axes& axes, bool may_be_empty) {
  if (table.rows().empty() && axes.are_chosen() && !may_be_empty) {
    throw UsageError(
        "--axis: this machine can measure no case with these values: choose more of them");
  }
  return table;
}

/// One run of `bench`.
class Run {
 public:
  Run(const ranks::Session& session, const Options& options, Log& log, const BenchRequest& request);

  ExitCode run_all();

 private:
  bool writes_file() const { return !options_.is_default("output.file"); }
  bool prints(Printing printing) const {
    return session_.rank() == 0 && request_.printing == printing;
  }
  Finished run_one(const Experiment& experiment);
  Ending check_own_kernel_of(const Experiment& experiment);
  RankResult run_on_this_rank(const Experiment& experiment, int at_once);
  RankResult take_turns(const Experiment& experiment);
  void observe_gpu(report::ExperimentResult& result);
  void warn_of_slow_ranks(const Finished& finished);
  void publish();
  std::vector<report::ExperimentResult> results() const;
  void store(io::ResultFile& file) const;

  const ranks::Session& session_;
  const Options& options_;
  Log& log_;
  const BenchRequest& request_;
  BenchFile file_;
  runtime::Runtime runtime_;
  Ceilings ceilings_;
  device::GpuFacts facts_;
  std::vector<int> partners_;
  std::vector<Finished> finished_;
  bool context_lost_ = false;
};

Run::Run(const ranks::Session& session, const Options& options, Log& log,
         const BenchRequest& request)
    : session_(session),
      options_(options),
      log_(log),
      request_(request),
      file_(destination_of(session, options, request.experiments)),
      runtime_(session, options, log) {
  if (writes_file()) {
    session.collectively([&] {
      if (session.rank() == 0) file_.expect_destination();
    });
  }
  if (const auto gpu = runtime_.nvml.gpu_at(runtime_.device->info().pci)) facts_ = gpu->facts();
  std::vector<const Experiment*> available;  // on GPUs, the same on every rank
  for (const Experiment* experiment : request.experiments) {
    const bool runs = runtime_.device->info().backend == "cuda";
    if (first_message(session, obstacle(*experiment, runtime_)).empty() && runs) {
      available.push_back(experiment);
    }
  }
  ceilings_ = measure_ceilings(runtime_, available);
  if (std::ranges::any_of(available, [](const Experiment* each) { return each->needs.gpus > 1; })) {
    partners_ = own_partners(session);
  }
}

/// Runs the experiment on this rank, while `at_once` ranks measure. In Scope::each_rank, throws
/// nothing.
RankResult Run::run_on_this_rank(const Experiment& experiment, int at_once) {
  const bool on_gpu = runtime_.device->info().backend == "cuda";
  std::optional<Together> together;
  if (experiment.scope == Scope::all_ranks) together.emplace(session_, *runtime_.communicator);
  const Axes axes(experiment, request_.axes.empty() ? AxisChoices{} : axis_choices(request_.axes),
                  request_.quick);
  Bench bench({.options = options_,
               .device = *runtime_.device,
               .facts = facts_,
               .resources = runtime_.resources,
               .sampling = sampling_of(options_, request_.quick),
               .quick = request_.quick,
               .rank = at_once == 1 ? 0 : session_.rank(),
               .at_once = at_once,
               .memory = runtime_.resources.device_memory,
               .ceilings = ceilings_.own,
               .heartbeat = session_.heartbeat(),
               .axes = axes,
               .partners = partners_,
               .together = together});
  RankResult result;
  const auto measure = [&] {
    Table rows =
        rows_or_incomplete(on_gpu ? experiment.run : experiment.run_host, bench, result.own_kernel);
    result.table =
        on_gpu ? with_expected(with_rows(std::move(rows), axes, together.has_value()), experiment,
                               bench.figure().value_or(experiment.figure), ceilings_.own)
               : std::move(rows);
  };
  result.ending = experiment.scope == Scope::all_ranks
                      ? agreed_ending_of(measure)
                      : ending_of(measure, session_.memory_remedy());
  result.figure = bench.figure().value_or(experiment.figure);
  result.notes = bench.notes();
  result.unconverged = bench.unconverged();
  return result;
}

/// Runs the experiment on this rank: alone, together with the other ranks, or both. Collective.
RankResult Run::take_turns(const Experiment& experiment) {
  const int ranks = session_.size();
  std::optional<RankResult> alone;
  if (experiment.turns != Turns::at_once && ranks > 1) {
    for (int rank = 0; rank < ranks; ++rank) {
      session_.barrier();
      if (rank == session_.rank()) alone = run_on_this_rank(experiment, 1);
    }
  }
  session_.barrier();
  if (!alone) return run_on_this_rank(experiment, ranks);
  if (experiment.turns == Turns::one_by_one || alone->ending.state != State::measured) {
    return *std::move(alone);
  }
  RankResult together = run_on_this_rank(experiment, ranks);
  for (const Row& row : together.table.rows()) alone->table.add(row.cells());
  together.table = std::move(alone->table);
  together.unconverged += alone->unconverged;
  return together;
}

void Run::observe_gpu(report::ExperimentResult& result) {
  std::vector<double> clocks, powers;
  bool known = false, throttled = false;
  for (const measure::TelemetrySample& sample : runtime_.telemetry->samples()) {
    clocks.push_back(sample.reading.sm_clock);
    powers.push_back(sample.reading.power);
    if (!sample.reading.clock_reasons) continue;
    known = true;
    throttled = throttled || device::throttling(*sample.reading.clock_reasons) != 0;
  }
  result.sm_clock = median(std::move(clocks));
  result.power = median(std::move(powers));
  const auto all_known = session_.sum(known ? 1 : 0);
  const auto all_throttled = session_.sum(throttled ? 1 : 0);
  result.throttled = all_known == 0 ? -1 : static_cast<std::int64_t>(all_throttled);
}

/// Without a GPU, checks the user's own kernel. The message of an end as `measured` is a sentence
/// on it, or empty. Collective.
Ending Run::check_own_kernel_of(const Experiment& experiment) {
  if (runtime_.device->info().backend == "cuda") return {};
  std::string sentence;
  const Ending mine =
      ending_of([&] { sentence = ladders::check_own_kernel(experiment.name, options_); },
                session_.memory_remedy());
  const auto worst = static_cast<State>(session_.max(static_cast<double>(mine.state)));
  if (worst == State::measured) return {worst, sentence};
  return {worst, first_message(session_, mine.state == worst ? mine.message : std::string())};
}

Finished Run::run_one(const Experiment& experiment) {
  Finished finished{&experiment, experiment.figure, State::measured, described(experiment)};
  report::ExperimentResult& result = finished.result;
  result.share = share_with_ceilings(experiment, ceilings_);
  const auto end = [&](State state, const std::string& message) {
    finished.state = state;
    result.state = word_of(state);
    result.message = message;
    return finished;
  };
  if (context_lost_) {
    return end(State::not_run, "an earlier experiment lost the CUDA context");
  }
  const Ending checked = check_own_kernel_of(experiment);
  if (checked.state != State::measured) return end(checked.state, checked.message);
  const std::string obstacle_of_all = first_message(session_, obstacle(experiment, runtime_));
  if (!obstacle_of_all.empty()) {
    return end(State::not_available, checked.message.empty()
                                         ? obstacle_of_all
                                         : obstacle_of_all + "; " + checked.message);
  }
  session_.heartbeat().enter(experiment.name);
  session_.barrier();
  runtime_.telemetry->start();
  const RankResult mine = take_turns(experiment);
  runtime_.telemetry->stop();
  const Ending& ending = mine.ending;
  const bool may_be_lost =
      (ending.state != State::measured || mine.own_kernel.code != ExitCode::done) &&
      runtime_.device->info().backend == "cuda";
  context_lost_ = session_.sum(may_be_lost && context_is_lost() ? 1 : 0) > 0;
  const auto worst = static_cast<State>(session_.max(static_cast<double>(ending.state)));
  result.unconverged =
      static_cast<std::int64_t>(session_.sum(static_cast<std::uint64_t>(mine.unconverged)));
  result.notes = mine.notes;
  finished.own_kernel =
      static_cast<ExitCode>(static_cast<int>(session_.max(static_cast<int>(mine.own_kernel.code))));
  const std::string failure = first_message(session_, mine.own_kernel.message);
  if (!failure.empty()) result.notes.push_back(failure);
  if (!checked.message.empty()) result.notes.push_back(checked.message);
  finished.figure = mine.figure;
  add_figure(result, mine.figure);
  observe_gpu(result);
  const std::string message =
      first_message(session_, ending.state == worst ? ending.message : std::string());
  if (worst == State::measured) result.table = ranks::gather(session_, mine.table);
  return end(worst, message);
}

void Run::warn_of_slow_ranks(const Finished& finished) {
  const auto ranks = static_cast<std::size_t>(session_.size());
  for (const SlowRank& slow : slow_ranks(finished.result.table, finished.figure, ranks)) {
    log_.warn(fmt::format(
        "{}: rank {} is slow: {:.0f} % of the speed of the other ranks (median of {} cases)",
        finished.experiment->name, slow.rank, 100 * slow.share, slow.cases));
  }
}

void Run::store(io::ResultFile& file) const {
  file.attribute("/", "argv", request_.command_line);
  for (const auto& [key, value] : options_.all()) file.attribute("/config", key, value.text);
  if (!request_.axes.empty()) file.attribute("/config", "axis", request_.axes);
  file.attribute("/config", "ranks", std::int64_t{session_.size()});
  for (const auto& [name, value] :
       runtime::provenance(runtime_.device.get(), runtime_.nvml, runtime_.communicator.get())) {
    file.attribute("/provenance", name, value);
  }
  runtime::store(file, *runtime_.topology);
  file.table("/", measure::ceilings_table(ceilings_.of_all_ranks));
  report::write_experiments(file, results());
}

/// Replaces the file by one with all finished experiments.
void Run::publish() {
  if (!writes_file()) return;
  session_.collectively([&] {
    if (session_.rank() == 0) file_.publish([&](io::ResultFile& file) { store(file); });
  });
}

std::vector<report::ExperimentResult> Run::results() const {
  std::vector<report::ExperimentResult> results;
  for (const Finished& each : finished_) results.push_back(each.result);
  return results;
}

ExitCode Run::run_all() {
  const auto any = [&](State state) {
    return std::ranges::find(finished_, state, &Finished::state) != finished_.end();
  };
  for (const Experiment* experiment : request_.experiments) {
    finished_.push_back(run_one(*experiment));
    const Finished& finished = finished_.back();
    if (finished.state == State::measured && session_.rank() == 0) warn_of_slow_ranks(finished);
    session_.collectively([&] {
      if (prints(Printing::text))
        print_output(text_of(finished.result, *experiment, request_.predictions) + '\n');
    });
    publish();
  }
  session_.collectively([&] {
    const std::string path = writes_file() ? file_.path().string() : "";
    if (prints(Printing::json)) {
      report::BenchFile bench{.path = path,
                              .command = request_.command_line,
                              .created = "",
                              .device = runtime_.device->info().name,
                              .ranks = static_cast<std::size_t>(session_.size()),
                              .experiments = results()};
      bench.roofline = report::roofline_of(bench.experiments, bench.device, {});
      print_output(report::to_json(bench));
    }
    if (!prints(Printing::text)) return;
    if (finished_.size() > 1) print_output(report::count_of_states(results()) + ".\n");
    if (!path.empty()) print_output(fmt::format("file={}\n", printable(path)));
  });
  const auto own_kernel = [&](ExitCode code) {
    return std::ranges::find(finished_, code, &Finished::own_kernel) != finished_.end();
  };
  if (any(State::wrong) || own_kernel(ExitCode::unverified)) return ExitCode::unverified;
  if (any(State::failed) || any(State::not_run) || own_kernel(ExitCode::failed)) {
    return ExitCode::failed;
  }
  return any(State::rejected) ? ExitCode::usage : ExitCode::done;
}

}  // namespace

std::span<const OptionRow> bench_options() {
  return rows;
}

ExitCode run_experiments(const ranks::Session& session, const Options& options, Log& log,
                         const BenchRequest& request) {
  session.collectively([&] { ranks::check_expected_ranks(session, options); });
  return Run(session, options, log, request).run_all();
}

}  // namespace shardstream::experiments
