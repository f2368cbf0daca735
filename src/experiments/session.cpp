#include "experiments/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>

#include "core/limits.hpp"
#include "core/standard_output.hpp"
#include "core/statistics.hpp"
#include "core/text.hpp"
#include "core/uuid.hpp"
#include "experiments/bench.hpp"
#include "experiments/context.hpp"
#include "io/origin.hpp"
#include "io/result_file.hpp"
#include "kernels/kernel.hpp"
#include "launch/gather.hpp"
#include "launch/options.hpp"
#include "launch/signals.hpp"
#include "measure/ceilings.hpp"
#include "measure/source_ceilings.hpp"
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

/// How an experiment ended; the same on every rank.
struct Finished {
  const Experiment* experiment;
  State state = State::measured;
  std::string message = {};  ///< why there is no table, or empty
  Table table{"rows", {}};   ///< of all ranks, if measured
  std::vector<std::string> notes = {};
  std::int64_t unconverged = 0;                                ///< cases of all ranks
  double sm_clock = device::unknown, power = device::unknown;  ///< MHz, W: medians, of rank 0
  std::int64_t throttled = -1;  ///< ranks whose GPU was throttled; -1: unknown
};

/// What one rank has to say at the end of an experiment, as text that ranks can exchange.
struct Ending {
  State state = State::measured;
  std::string message = {};
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

/// The rows of rank 0 without their rank, with four significant digits for the eye.
Table of_first_rank(const Table& all) {
  Table table("rows", {all.columns().begin() + 1, all.columns().end()});
  for (const Row& row : all.rows()) {
    if (row.get<std::int64_t>("rank") != 0) continue;
    std::vector<Cell> cells(row.cells().begin() + 1, row.cells().end());
    for (Cell& cell : cells) {
      if (auto* const real = std::get_if<double>(&cell)) {
        *real = std::stod(fmt::format("{:.4g}", *real));
      }
    }
    table.add(std::move(cells));
  }
  return table;
}

/// All of a run of experiments.
class Run {
 public:
  Run(const launch::Session& session, const Options& options, Log& log, const Request& request);

  ExitCode all();

 private:
  Finished one(const Experiment& experiment);
  Ending attempt(const Experiment& experiment, Bench& bench, Table& table);
  void observe_gpu(Finished& finished);
  void warn_of_slow_ranks(const Finished& finished);
  void print(const Finished& finished) const;
  void publish();
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
  std::vector<const Experiment*> available;
  for (const Experiment* experiment : request.chosen) {
    const bool runs = experiment->run != nullptr && runtime_.device->info().backend == "cuda";
    if (runs && obstacle(*experiment, runtime_).empty()) available.push_back(experiment);
  }
  my_ceilings_ = measure_ceilings(runtime_, available, ceilings_);
}

/// Runs it on this rank. Throws nothing.
Ending Run::attempt(const Experiment& experiment, Bench& bench, Table& table) {
  const bool on_gpu = runtime_.device->info().backend == "cuda";
  try {
    table = on_gpu ? experiment.run(bench) : experiment.run_host(bench);
    return {};
  } catch (const NotAvailable& error) {
    return {State::not_available, error.what()};
  } catch (const Unverified& error) {
    return {State::wrong, error.what()};
  } catch (const std::exception& error) {
    return {State::failed, message_of(error)};
  }
}

void Run::observe_gpu(Finished& finished) {
  std::vector<double> clocks, powers;
  bool known = false, throttled = false;
  for (const measure::Sample& sample : runtime_.telemetry->samples()) {
    if (std::isfinite(sample.reading.sm_clock)) clocks.push_back(sample.reading.sm_clock);
    if (std::isfinite(sample.reading.power)) powers.push_back(sample.reading.power);
    if (!sample.reading.clock_reasons) continue;
    known = true;
    throttled = throttled || device::throttling(*sample.reading.clock_reasons) != 0;
  }
  if (!clocks.empty()) finished.sm_clock = summarize(clocks).median;
  if (!powers.empty()) finished.power = summarize(powers).median;
  const auto all_known = session_.sum(known ? 1 : 0);
  const auto all_throttled = session_.sum(throttled ? 1 : 0);
  finished.throttled = all_known == 0 ? -1 : static_cast<std::int64_t>(all_throttled);
}

Finished Run::one(const Experiment& experiment) {
  Finished finished{&experiment};
  if (context_lost_) {
    finished.state = State::not_run;
    finished.message = "an experiment before it has lost the CUDA context";
    return finished;
  }
  finished.message = first_message(session_, obstacle(experiment, runtime_));
  if (!finished.message.empty()) {
    finished.state = State::not_available;
    return finished;
  }
  session_.heartbeat().enter(experiment.name);
  Bench bench({.options = options_,
               .device = runtime_.device->info(),
               .facts = facts_,
               .sampling = sampling_of(options_, request_.quick),
               .quick = request_.quick,
               .memory = runtime_.resources.device_memory,
               .ceilings = my_ceilings_,
               .heartbeat = session_.heartbeat()});
  Table mine("rows", {});
  session_.barrier();
  runtime_.telemetry->start();
  const Ending ending = attempt(experiment, bench, mine);
  runtime_.telemetry->stop();
  context_lost_ = session_.sum(ending.state != State::measured && context_is_lost() ? 1 : 0) > 0;
  finished.state = static_cast<State>(session_.max(static_cast<double>(ending.state)));
  finished.message = first_message(session_, ending.message);
  finished.unconverged =
      static_cast<std::int64_t>(session_.sum(static_cast<std::uint64_t>(bench.unconverged())));
  finished.notes = bench.notes();
  if (finished.state == State::measured) finished.table = launch::gather(session_, mine);
  observe_gpu(finished);
  return finished;
}

/// Compares each rank with the median of the others in every row. A rank is named if it is slower
/// beyond its interval, and by 3 % or more, in at least half of the rows.
void Run::warn_of_slow_ranks(const Finished& finished) {
  constexpr double relevant = 0.03;
  const auto ranks = static_cast<std::size_t>(session_.size());
  const auto all = finished.table.rows();
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

void Run::print(const Finished& finished) const {
  const Experiment& experiment = *finished.experiment;
  std::string text = fmt::format("{}: {}\n", experiment.name, experiment.summary);
  if (finished.state == State::measured) {
    text += to_text(of_first_rank(finished.table));
    for (const std::string& note : finished.notes) text += wrapped("", note, 0);
    if (!experiment.reference.empty()) {
      text += wrapped("", fmt::format("Published: {}", experiment.reference), 0);
    }
    if (finished.unconverged > 0) {
      text += fmt::format("{} not as precise as measure.precision.\n",
                          counted(finished.unconverged, "case"));
    }
    if (finished.throttled > 0) {
      text += fmt::format("The GPU was throttled on {}.\n", counted(finished.throttled, "rank"));
    }
  } else {
    text +=
        wrapped("", fmt::format("{}: {}", word_of(finished.state), printable(finished.message)), 0);
  }
  print_output(text + '\n');
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
  Table index("experiments", {{"experiment", ColumnType::text},
                              {"group", ColumnType::text},
                              {"state", ColumnType::text},
                              {"message", ColumnType::text},
                              {"unconverged", ColumnType::integer},
                              {"sm_clock", ColumnType::real, "MHz"},
                              {"power", ColumnType::real, "W"},
                              {"throttled", ColumnType::integer}});
  for (const Finished& each : finished_) {
    const Experiment& experiment = *each.experiment;
    index.add({std::string(experiment.name), std::string(experiment.group),
               std::string(word_of(each.state)), each.message, each.unconverged, each.sm_clock,
               each.power, each.throttled});
    if (each.state != State::measured) continue;
    const std::string group = fmt::format("/bench/{}", experiment.name);
    file.table(group, each.table);
    const auto put = [&](const char* name, std::string_view value) {
      file.attribute(group, name, std::string(value));
    };
    put("summary", experiment.summary);
    put("reference", experiment.reference);
    put("look", word_of(experiment.figure.look));
    put("x", experiment.figure.x);
    put("y", experiment.figure.y);
    put("series", experiment.figure.series);
    put("log", experiment.figure.log_x ? (experiment.figure.log_y ? "xy" : "x")
                                       : (experiment.figure.log_y ? "y" : ""));
    std::string notes;
    for (const std::string& note : each.notes) notes += note + '\n';
    put("notes", notes);
  }
  file.table("/bench", index);
}

/// Writes all that is finished in place of what an earlier call has written.
void Run::publish() {
  if (path_.empty()) return;
  session_.collectively([&] {
    if (session_.rank() != 0) return;
    constexpr std::uint64_t room = std::uint64_t{4} << 20;
    const std::string uuid = random_uuid();
    const launch::RemoveOnSignal remove({io::part_path_of(path_, uuid)});
    io::ResultFile file(path_, finished_.size() > 1 ? io::Overwrite::own : overwrite_, uuid, room);
    store(file);
    file.publish();
  });
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
      if (session_.rank() == 0) print(finished);
    });
    publish();
  }
  session_.collectively([&] {
    if (session_.rank() == 0 && !path_.empty()) {
      print_output(fmt::format("file={}\n", printable(path_.string())));
    }
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
