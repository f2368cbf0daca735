#include "experiments/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>

#include "core/limits.hpp"
#include "core/log.hpp"
#include "core/statistics.hpp"
#include "core/text.hpp"
#include "core/uuid.hpp"
#include "experiments/bench.hpp"
#include "experiments/context.hpp"
#include "io/hdf5/result_file.hpp"
#include "io/source/origin.hpp"
#include "kernels/kernel.hpp"
#include "launch/session.hpp"
#include "launch/signals.hpp"
#include "measure/ceilings.hpp"
#include "measure/source_ceilings.hpp"
#include "report/experiments.hpp"
#include "runtime/provenance.hpp"
#include "runtime/runtime.hpp"
#include "runtime/topology.hpp"

namespace shardstream::experiments {
namespace {

namespace fs = std::filesystem;

constexpr std::array rows = {
    OptionRow{"measure.repeat", OptionKind::count, "auto", "auto|1..1000000",
              "Timed calls of each case. auto repeats until the median is as precise as "
              "measure.precision."},
    OptionRow{"measure.max-time", OptionKind::duration, "1s", "1ms..",
              "The longest time that measure.repeat auto spends on a case; with --quick 50 ms."},
    OptionRow{"output.file", OptionKind::text, "", "",
              "The file for all tables; without it they are printed only."},
};

/// In the order of what ranks agree on: the greatest of theirs.
enum class State { measured, not_available, wrong, failed, not_run };

std::string_view word_of(State state) {
  constexpr std::array<std::string_view, 5> words = {"measured", "not available", "wrong", "failed",
                                                     "not run"};
  return words[static_cast<std::size_t>(state)];
}

/// An experiment with how it ended; the same on every rank.
struct Finished {
  const Experiment* experiment;
  State state = State::measured;
  report::ExperimentResult result = {};
};

/// How an experiment has ended on one rank.
struct Ending {
  State state = State::measured;
  std::string message = {};
};

/// The results of an experiment on one rank.
struct Attempt {
  Ending ending = {};
  Table table{"rows", {}};
  std::vector<std::string> notes = {};
  int unconverged = 0;
};

measure::Sampling sampling_of(const Options& options, bool quick) {
  measure::Sampling sampling = measure::sampling(options);
  if (quick && options.is_default("measure.max-time")) sampling.max_time = 0.05;
  return sampling;
}

/// The ceilings that the experiments need, on this rank, by name. Collective.
std::map<std::string, double> measure_ceilings(runtime::Runtime& runtime,
                                               std::span<const Experiment* const> experiments,
                                               std::vector<measure::Ceiling>& all) {
  const launch::Session& session = runtime.session;
  device::Device& device = *runtime.device;
  const auto effort = measure::effort_for(
      device, session, std::uint64_t{16} << 30,
      measure::host_memory_sample(runtime.resources.cache, runtime.resources.host_memory,
                                  runtime.resources.ranks_on_host),
      runtime.resources.device_memory);
  using Measure = measure::Ceiling (*)(device::Device&, const launch::Session&, measure::Effort);
  const std::array<std::pair<std::string_view, Measure>, 5> known = {{
      {"device_read", measure::device_read},
      {"device_copy", measure::device_copy},
      {"link_up",
       [](auto& d, auto& s, auto e) { return measure::link(measure::Way::up, d, s, e); }},
      {"link_down",
       [](auto& d, auto& s, auto e) { return measure::link(measure::Way::down, d, s, e); }},
      {"link_both",
       [](auto& d, auto& s, auto e) { return measure::link(measure::Way::both, d, s, e); }},
  }};
  std::map<std::string, double> mine;
  for (const auto& [name, measure] : known) {
    const auto needs_it = [&](const Experiment* experiment) {
      return std::ranges::find(experiment->needs.ceilings, name) !=
             experiment->needs.ceilings.end();
    };
    if (!std::ranges::any_of(experiments, needs_it)) continue;
    all.push_back(measure(device, session, effort));
    mine[std::string(name)] = all.back().by_rank[static_cast<std::size_t>(session.rank())];
  }
  return mine;
}

/// The columns' names with a blank between two of them.
std::string names_of(std::span<const std::string_view> columns) {
  std::vector<std::string_view> named;
  for (const std::string_view column : columns) {
    if (!column.empty()) named.push_back(column);
  }
  return join(named, " ");
}

/// The words of the catalogue on the experiment.
report::ExperimentResult described(const Experiment& experiment) {
  const Figure& figure = experiment.figure;
  report::ExperimentResult result;
  result.name = experiment.name;
  result.group = experiment.group;
  result.summary = experiment.summary;
  result.reference = experiment.reference;
  result.look = word_of(figure.look);
  result.x = figure.x;
  result.y = figure.y;
  result.series = figure.series;
  result.panel = figure.panel;
  result.beside = names_of(figure.beside);
  result.log = fmt::format("{}{}", figure.log_x ? "x" : "", figure.log_y ? "y" : "");
  result.better = figure.more_is_better ? "more" : "less";
  return result;
}

/// "of the rate of uploads (link_up 54.3 GB/s)": with the ceilings of this rank that the share may
/// refer to.
std::string share_with_ceilings(const Experiment& experiment,
                                const std::map<std::string, double>& ceilings) {
  std::string values;
  for (const std::string_view name : experiment.needs.ceilings) {
    const auto found = ceilings.find(std::string(name));
    if (found == ceilings.end()) continue;
    values += fmt::format("{}{} {:.4g} GB/s", values.empty() ? "" : ", ", name, found->second);
  }
  const std::string share(experiment.share);
  return share.empty() || values.empty() ? share : fmt::format("{} ({})", share, values);
}

/// Why this rank cannot run the experiment; empty if it can.
std::string obstacle(const Experiment& experiment, const runtime::Runtime& runtime) {
  const device::DeviceInfo& device = runtime.device->info();
  if (device.backend != "cuda" && experiment.run_host != nullptr) return {};
  if (!built_with_cuda) return "this program was built without CUDA";
  if (device.backend != "cuda") return "there is no GPU, or device.backend is host";
  if (device.compute_capability < experiment.needs.compute_capability) {
    return fmt::format("{} has compute capability {}.{}, and it takes {}.{}", device.name,
                       device.compute_capability / 10, device.compute_capability % 10,
                       experiment.needs.compute_capability / 10,
                       experiment.needs.compute_capability % 10);
  }
  if (const int gpus = visible_gpus(); gpus < experiment.needs.gpus) {
    return fmt::format("it takes {} GPUs, and this rank sees {}", experiment.needs.gpus, gpus);
  }
  return {};
}

/// The first of the ranks' messages that is not empty, with its rank. Collective.
std::string first_message(const launch::Session& session, const std::string& mine) {
  const auto all = session.gather(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    return all.size() > 1 ? fmt::format("rank {}: {}", rank, all[rank]) : all[rank];
  }
  return {};
}

/// All of a run of experiments.
class Run {
 public:
  Run(const launch::Session& session, const Options& options, Log& log, const Request& request);

  ExitCode all();

 private:
  Finished one(const Experiment& experiment);
  Attempt attempt(const Experiment& experiment, int at_once);
  Attempt take_turns(const Experiment& experiment);
  void observe_gpu(report::ExperimentResult& result);
  void warn_of_slow_ranks(const Finished& finished);
  void publish();
  void expect_own_file() const;
  std::string count_of_states() const;
  void store(io::ResultFile& file) const;

  const launch::Session& session_;
  const Options& options_;
  Log& log_;
  const Request& request_;
  fs::path path_;
  io::Overwrite overwrite_;
  runtime::Runtime runtime_;
  std::optional<runtime::Topology> topology_;
  std::vector<measure::Ceiling> ceilings_;
  std::map<std::string, double> my_ceilings_;
  device::GpuFacts facts_;
  std::vector<Finished> finished_;
  std::string published_;  ///< UUID of the file that this run has written; empty: none yet
  bool context_lost_ = false;
};

Run::Run(const launch::Session& session, const Options& options, Log& log, const Request& request)
    : session_(session),
      options_(options),
      log_(log),
      request_(request),
      path_(options.text("output.file")),
      overwrite_(io::overwrite_of(options)),
      runtime_(session, options, log) {
  if (!path_.empty()) {
    session.collectively([&] {
      if (session.rank() == 0) {
        constexpr std::uint64_t room = std::uint64_t{4} << 20;
        io::expect_place(path_, overwrite_, io::Contents::result, room);
      }
    });
    topology_ = runtime::observe(runtime_);
  }
  if (const auto gpu = runtime_.nvml.gpu_at(runtime_.device->info().pci)) facts_ = gpu->facts();
  std::vector<const Experiment*> available;  // on GPUs, the same on every rank
  for (const Experiment* experiment : request.chosen) {
    const bool runs = runtime_.device->info().backend == "cuda";
    if (first_message(session, obstacle(*experiment, runtime_)).empty() && runs) {
      available.push_back(experiment);
    }
  }
  my_ceilings_ = measure_ceilings(runtime_, available, ceilings_);
}

/// Runs it on this rank, while `at_once` ranks measure. Throws nothing.
Attempt Run::attempt(const Experiment& experiment, int at_once) {
  const bool on_gpu = runtime_.device->info().backend == "cuda";
  Bench bench({.options = options_,
               .device = *runtime_.device,
               .facts = facts_,
               .resources = runtime_.resources,
               .sampling = sampling_of(options_, request_.quick),
               .quick = request_.quick,
               .rank = at_once == 1 ? 0 : session_.rank(),
               .at_once = at_once,
               .memory = runtime_.resources.device_memory,
               .ceilings = my_ceilings_,
               .heartbeat = session_.heartbeat()});
  Attempt attempt;
  try {
    attempt.table = on_gpu ? experiment.run(bench) : experiment.run_host(bench);
  } catch (const NotAvailable& error) {
    attempt.ending = {State::not_available, error.what()};
  } catch (const Unverified& error) {
    attempt.ending = {State::wrong, error.what()};
  } catch (const std::exception& error) {
    attempt.ending = {State::failed, message_of(error)};
  }
  attempt.notes = bench.notes();
  attempt.unconverged = bench.unconverged();
  return attempt;
}

/// Runs it on this rank, alone or together with the others. Collective.
Attempt Run::take_turns(const Experiment& experiment) {
  const int ranks = session_.size();
  std::optional<Attempt> alone;
  if (experiment.turns != Turns::at_once && ranks > 1) {
    for (int rank = 0; rank < ranks; ++rank) {
      session_.barrier();
      if (rank == session_.rank()) alone = attempt(experiment, 1);
    }
  }
  session_.barrier();
  if (!alone) return attempt(experiment, ranks);
  if (experiment.turns == Turns::one_by_one || alone->ending.state != State::measured) {
    return *std::move(alone);
  }
  Attempt together = attempt(experiment, ranks);
  for (const Row& row : together.table.rows()) alone->table.add(row.cells());
  together.table = std::move(alone->table);
  together.unconverged += alone->unconverged;
  return together;
}

void Run::observe_gpu(report::ExperimentResult& result) {
  std::vector<double> clocks, powers;
  bool known = false, throttled = false;
  for (const measure::Sample& sample : runtime_.telemetry->samples()) {
    if (std::isfinite(sample.reading.sm_clock)) clocks.push_back(sample.reading.sm_clock);
    if (std::isfinite(sample.reading.power)) powers.push_back(sample.reading.power);
    if (!sample.reading.clock_reasons) continue;
    known = true;
    throttled = throttled || device::throttling(*sample.reading.clock_reasons) != 0;
  }
  result.sm_clock = clocks.empty() ? device::unknown : summarize(clocks).median;
  result.power = powers.empty() ? device::unknown : summarize(powers).median;
  const auto all_known = session_.sum(known ? 1 : 0);
  const auto all_throttled = session_.sum(throttled ? 1 : 0);
  result.throttled = all_known == 0 ? -1 : static_cast<std::int64_t>(all_throttled);
}

Finished Run::one(const Experiment& experiment) {
  Finished finished{&experiment, State::measured, described(experiment)};
  report::ExperimentResult& result = finished.result;
  result.share = share_with_ceilings(experiment, my_ceilings_);
  const auto end = [&](State state, const std::string& message) {
    finished.state = state;
    result.state = word_of(state);
    result.message = message;
    return finished;
  };
  if (context_lost_) {
    return end(State::not_run, "an experiment before it has lost the CUDA context");
  }
  const std::string obstacle_of_all = first_message(session_, obstacle(experiment, runtime_));
  if (!obstacle_of_all.empty()) return end(State::not_available, obstacle_of_all);
  session_.heartbeat().enter(experiment.name);
  session_.barrier();
  runtime_.telemetry->start();
  const Attempt mine = take_turns(experiment);
  runtime_.telemetry->stop();
  const Ending& ending = mine.ending;
  context_lost_ = session_.sum(ending.state != State::measured && context_is_lost() ? 1 : 0) > 0;
  const auto worst = static_cast<State>(session_.max(static_cast<double>(ending.state)));
  result.unconverged =
      static_cast<std::int64_t>(session_.sum(static_cast<std::uint64_t>(mine.unconverged)));
  result.notes = mine.notes;
  observe_gpu(result);
  const std::string message = first_message(session_, ending.message);
  if (worst == State::measured) result.table = launch::gather(session_, mine.table);
  return end(worst, message);
}

/// Compares each rank with the median of the others in every row. A rank is named if it is slower
/// beyond its interval, and by 3 % or more, in at least half of the rows.
void Run::warn_of_slow_ranks(const Finished& finished) {
  constexpr double relevant = 0.03;
  const auto ranks = static_cast<std::size_t>(session_.size());
  const auto all = finished.result.table.rows();
  const std::size_t cases = std::ranges::size(all) / ranks;
  if (ranks < 2 || cases * ranks != static_cast<std::size_t>(std::ranges::size(all))) return;
  const Figure& figure = finished.experiment->figure;
  const auto at = [&](std::size_t rank, std::size_t row, std::string_view column) {
    return all[static_cast<std::ptrdiff_t>(rank * cases + row)].get<double>(column);
  };
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::size_t slower = 0;
    std::vector<double> ratios;
    for (std::size_t row = 0; row < cases; ++row) {
      std::vector<double> others;
      for (std::size_t other = 0; other < ranks; ++other) {
        if (other != rank) others.push_back(at(other, row, figure.y));
      }
      const double usual = summarize(others).median;
      const double nearer = at(rank, row, figure.more_is_better ? "ci_hi" : "ci_lo");
      const double value = std::isnan(nearer) ? at(rank, row, figure.y) : nearer;
      const double ratio = figure.more_is_better ? value / usual : usual / value;
      ratios.push_back(ratio);
      slower += ratio < 1 - relevant ? 1 : 0;
    }
    if (2 * slower < cases) continue;
    log_.warn(
        fmt::format("{}: rank {} reaches {:.0f} % of what the other ranks do (median of its "
                    "{} cases)",
                    finished.experiment->name, rank, 100 * summarize(ratios).median, cases));
  }
}

void Run::store(io::ResultFile& file) const {
  file.attribute("/", "argv", request_.command_line);
  for (const auto& [key, value] : options_.all()) file.attribute("/config", key, value.text);
  file.attribute("/config", "ranks", std::int64_t{session_.size()});
  for (const auto& [name, value] :
       runtime::provenance(runtime_.device.get(), runtime_.nvml, runtime_.communicator.get())) {
    file.attribute("/provenance", name, value);
  }
  file.table("/topology", topology_->ranks);
  file.table("/topology", topology_->gpus);
  file.table("/topology", topology_->peers);
  file.table("/", measure::ceilings_table(ceilings_));
  std::vector<report::ExperimentResult> results;
  for (const Finished& each : finished_) results.push_back(each.result);
  report::write_experiments(file, results);
}

/// Throws Error if the file at the path is not the one that this run has written last: another
/// process has replaced it, and output.overwrite does not allow to replace that one.
void Run::expect_own_file() const {
  std::error_code ignored;
  if (published_.empty() || overwrite_ != io::Overwrite::never || !fs::exists(path_, ignored)) {
    return;
  }
  std::string found;
  try {
    found = io::ResultReader(path_).text("/", "run_uuid");
  } catch (const UsageError&) {
    // No result at all: not this run's either.
  }
  if (found == published_) return;
  throw Error(
      fmt::format("output.file: another process has replaced '{}' since this run wrote it: run "
                  "again with another output.file",
                  path_.string()));
}

/// Replaces the file of an earlier call by one with all that is finished.
void Run::publish() {
  if (path_.empty()) return;
  session_.collectively([&] {
    if (session_.rank() != 0) return;
    constexpr std::uint64_t room = std::uint64_t{4} << 20;
    const std::string uuid = random_uuid();
    const launch::RemoveOnSignal remove({io::part_path_of(path_, uuid)});
    expect_own_file();
    const bool is_first = published_.empty() || overwrite_ == io::Overwrite::anything;
    io::ResultFile file(path_, is_first ? overwrite_ : io::Overwrite::own, uuid, room);
    store(file);
    expect_own_file();  // once more: it was long enough for another process
    file.publish();
    published_ = uuid;
  });
}

/// "22 experiments: 20 measured, 2 not available"
std::string Run::count_of_states() const {
  std::vector<report::ExperimentResult> results;
  for (const Finished& each : finished_) results.push_back(each.result);
  return report::count_of_states(results);
}

ExitCode Run::all() {
  bool wrong = false, failed = false;
  for (const Experiment* experiment : request_.chosen) {
    finished_.push_back(one(*experiment));
    const Finished& finished = finished_.back();
    wrong = wrong || finished.state == State::wrong;
    failed = failed || finished.state == State::failed || finished.state == State::not_run;
    if (finished.state == State::measured && session_.rank() == 0) warn_of_slow_ranks(finished);
    session_.collectively([&] {
      if (session_.rank() == 0) print_output(report::to_text(finished.result) + '\n');
    });
    publish();
  }
  session_.collectively([&] {
    if (session_.rank() != 0) return;
    if (finished_.size() > 1) print_output(count_of_states() + ".\n");
    if (!path_.empty()) print_output(fmt::format("file={}\n", printable(path_.string())));
  });
  return wrong ? ExitCode::unverified : failed ? ExitCode::failed : ExitCode::done;
}

}  // namespace

std::span<const OptionRow> bench_options() {
  return rows;
}

ExitCode run_experiments(const launch::Session& session, const Options& options, Log& log,
                         const Request& request) {
  session.collectively([&] { launch::check_expected_ranks(session, options); });
  return Run(session, options, log, request).all();
}

}  // namespace shardstream::experiments
