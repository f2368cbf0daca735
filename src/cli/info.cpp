// Shows what each rank sees and binds, and the problems that a run would have. Everything that can
// be found is shown before the first problem ends the command.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <optional>

#include "cli/commands.hpp"
#include "core/log.hpp"
#include "core/shard.hpp"
#include "core/table.hpp"
#include "core/text.hpp"
#include "measure/ceilings.hpp"
#include "measure/source_ceilings.hpp"
#include "pipeline/stream_limits.hpp"
#include "ranks/cpus.hpp"
#include "ranks/session.hpp"
#include "result/columns.hpp"
#include "result/tables.hpp"
#include "runtime/provenance.hpp"
#include "runtime/slow_links.hpp"
#include "runtime/topology.hpp"
#include "workloads/registry.hpp"

namespace shardstream::cli {
namespace {

constexpr std::array<std::string_view, 3> switches_of_info = {"json", "quiet", "measure"};
/// The help shows the options of these sections. Others are accepted and ignored, so that `info`
/// takes the options of a run.
constexpr std::array<std::string_view, 5> sections_of_info = {"launch", "device", "comm", "input",
                                                              "pipeline"};

struct InfoSwitches {
  Printing printing = Printing::text;
  bool measure = false;
};

Options parse(const Arguments& arguments, const char* const* environment, InfoSwitches& chosen) {
  const OptionTable table = all_options();
  const CommandLine line = table.parse_command_line(arguments, switches_of_info);
  std::optional<std::filesystem::path> ini;
  for (const std::string& word : line.words) {
    if (ini || !word.ends_with(".ini")) {
      throw UsageError(
          fmt::format("info takes at most one configuration file (NAME.ini), but there is {}: see "
                      "shardstream info --help",
                      excerpt(word)));
    }
    ini = word;
  }
  chosen = {.printing = printing_of(line), .measure = line.switches.contains("measure")};
  return table.resolve(line, environment, ini);
}

/// The part of the input that a run with the same options would read on this rank, and how.
struct ReadingPlan {
  Range mine;
  pipeline::Sizes sizes;
};

/// Throws AgreedError if there is not enough memory. Collective.
ReadingPlan plan_reading(const runtime::Runtime& runtime, const io::Source& source) {
  const ranks::Session& session = runtime.session;
  ReadingPlan plan{.mine = share(source.count(), static_cast<std::uint64_t>(session.rank()),
                                 static_cast<std::uint64_t>(session.size())),
                   .sizes = {}};
  session.collectively([&] {
    plan.sizes = pipeline::choose_sizes(
        runtime.options, runtime.resources,
        pipeline::size_of_shard(source, plan.mine, runtime.resources.backend));
  });
  return plan;
}

/// Measures the ceilings of this machine and of the source, with all ranks at work. Collective.
std::vector<measure::Ceiling> measure_ceilings(runtime::Runtime& runtime, io::Source& source,
                                               const ReadingPlan& plan) {
  device::Device& device = *runtime.device;
  const ranks::Session& session = runtime.session;
  const runtime::Resources& resources = runtime.resources;
  const pipeline::Sizes& sizes = plan.sizes;
  const std::uint64_t sample =
      measure::host_memory_sample(resources.cache, resources.host_memory, resources.ranks_on_host);
  const auto effort =
      measure::effort_for(device, session, std::uint64_t{16} << 30, sample, sizes.device_limit);
  std::vector<measure::Ceiling> ceilings;
  for (const auto way :
       {measure::LinkDirection::up, measure::LinkDirection::down, measure::LinkDirection::both}) {
    ceilings.push_back(measure::link(way, device, session, effort));
  }
  ceilings.push_back(measure::device_read(device, session, effort));
  ceilings.push_back(measure::device_copy(device, session, effort));
  ceilings.push_back(measure::arithmetic<float>(device, session, effort));
  ceilings.push_back(measure::arithmetic<double>(device, session, effort));
  {
    const measure::HostMemory memory(session, resources.threads, sample);
    ceilings.push_back(memory.read());
    ceilings.push_back(memory.copy({sizes.readers, sizes.slots, sizes.slot * sizes.of.moved()}));
  }
  constexpr std::size_t gathered = std::size_t{64} << 10;  // roughly the bytes of a reduction
  const auto gather = measure::all_gather(device, *runtime.communicator, session, effort, gathered);
  if (gather) ceilings.push_back(*gather);
  const measure::PageCache cache = measure::page_cache(session, source, plan.mine);
  session.collectively([&] { source.prepare(plan.mine); });
  for (auto& ceiling :
       measure::source_ceilings(session, source, plan.mine, pipeline::readers_of(sizes), cache)) {
    ceilings.push_back(std::move(ceiling));
    ceilings.back().on_path = false;  // there is no run
  }
  return ceilings;
}

/// Warns of slow links, too. Collective.
Table table_of_ceilings(runtime::Runtime& runtime, io::Source& source, const ReadingPlan& plan) {
  const auto ceilings = measure_ceilings(runtime, source, plan);
  runtime::warn_of_slow_links(runtime, ceilings);
  return measure::ceilings_table(ceilings);
}

Table versions(const device::Device* device, const device::Nvml& nvml,
               const comm::Communicator* communicator) {
  Table table("versions", {{"name", ColumnType::text}, {"version", ColumnType::text}});
  for (const auto& [name, value] : runtime::provenance(device, nvml, communicator)) {
    if (name != "flags" && name != "environment" && !value.empty()) table.add({name, value});
  }
  return table;
}

/// The findings of this rank: notes, warnings and problems.
Table findings_here(const ranks::Session& session, const Log& log, const device::Nvml& nvml,
                    bool has_gpus, std::span<const ranks::AgreedError> errors) {
  Table table("findings", {{"kind", ColumnType::text}, {"finding", ColumnType::text}});
  if (session.local_rank() == 0) {
    if (has_gpus && !nvml.problem().empty()) {
      table.add(
          {"note", printable(fmt::format("NVML gives no data on GPUs ({})", nvml.problem()))});
    }
    for (const auto& gpu : nvml.gpus()) {
      const auto ecc_errors = gpu.ecc_errors().since_load;
      if (ecc_errors <= 0) continue;
      table.add({"warning",
                 fmt::format("the GPU at {} had {} uncorrectable memory errors: have it checked",
                             gpu.facts().pci, ecc_errors)});
    }
  }
  for (const auto& warning : log.warnings()) table.add({"warning", printable(warning)});
  for (const auto& error : errors) {
    if (error.prints()) table.add({"problem", printable(error.what())});
  }
  return table;
}

/// Folds wide tables into blocks, but not narrow ones, which contain sentences.
std::string as_text(std::span<const Table> tables) {
  constexpr std::size_t narrow = 4, width = 100;
  std::string text;
  for (const Table& table : tables) {
    text += fmt::format("{}{}:", text.empty() ? "" : "\n", table.name());
    if (table.rows().empty()) {
      text += " none\n";
    } else {
      text += '\n' + (table.columns().size() > narrow ? to_text(table, width) : to_text(table));
    }
  }
  return text;
}

/// Sets `source`, also if the input is then found to differ between ranks. Throws AgreedError.
/// Collective.
void open_input(const ranks::Session& session, const Options& options,
                std::unique_ptr<io::Source>& source) {
  session.collectively([&] { source = io::open_source(options); });
  session.collectively([&] { workloads::expect_same_inputs(session, io::identity_of(*source)); });
}

ExitCode show(const ranks::Session& session, const Options& options, Log& log,
              const InfoSwitches& chosen) {
  std::vector<ranks::AgreedError> errors;  // the first one is thrown after everything is shown
  const auto attempt = [&](const auto& step) {
    try {
      step();
    } catch (const ranks::AgreedError& error) {
      errors.push_back(error);
    }
  };
  std::unique_ptr<io::Source> source;
  std::optional<runtime::Runtime> runtime;
  attempt([&] { session.collectively([&] { ranks::check_expected_ranks(session, options); }); });
  attempt([&] { open_input(session, options, source); });
  if (source && session.rank() == 0) {
    for (const std::string& note : source->origin().notes) log.info(note);
    for (const std::string& warning : source->origin().warnings) log.warn(warning);
  }
  attempt([&] { runtime.emplace(session, options, log); });
  const device::Nvml nvml(device::Nvml::usual_name);
  device::Device* device = runtime ? runtime->device.get() : nullptr;
  const auto topology =
      runtime::observe({.session = session,
                        .threads = runtime ? runtime->resources.threads
                                           : static_cast<unsigned>(ranks::granted_cpus().size()),
                        .device = device,
                        .nvml = nvml,
                        .ask_cuda = options.text("device.backend") != "host"});
  std::vector<Table> tables = {
      versions(device, nvml, runtime ? runtime->communicator.get() : nullptr),
      result::table_of(topology.ranks), result::table_of(topology.gpus),
      result::table_of(topology.peers)};
  if (runtime && source) {
    attempt([&] {
      const ReadingPlan plan = plan_reading(*runtime, *source);
      if (chosen.measure) tables.push_back(table_of_ceilings(*runtime, *source, plan));
    });
  }
  tables.push_back(
      ranks::gather(session, findings_here(session, log, nvml, !topology.gpus.empty(), errors)));
  session.collectively([&] {
    if (session.rank() != 0 || chosen.printing == Printing::none) return;
    print_output(chosen.printing == Printing::json ? to_json(tables) : as_text(tables));
  });
  if (!errors.empty()) throw ranks::AgreedError(errors.front());
  return ExitCode::done;
}

int info(const Arguments& arguments, const char* const* environment) {
  InfoSwitches chosen;
  return in_session([&] { return parse(arguments, environment, chosen); },
                    [&](const ranks::Session& session, const Options& options, Log& log) {
                      // All ranks follow rank 0, since measuring is collective.
                      chosen.measure = !session.broadcast(chosen.measure ? "yes" : "").empty();
                      return show(session, options, log, chosen);
                    });
}

std::string info_help(const Arguments&) {
  return fmt::format(
      R"(shardstream info [CONFIG.ini] [--json] [--measure] [OPTIONS]

Shows versions, the ranks with their CPUs and devices, the GPUs, the links between GPUs, and
the warnings and errors that a run with the same options would give. With an error, the exit
code is that of the run. Unknown numbers are -1 or nan (null in JSON).

  --quiet     writes only warnings and errors
  --json      writes one JSON object instead of text
  --measure   also measures the ceilings of this machine with all ranks at work, including
              the rate of input.data; the options of [input] and [pipeline] apply to it

--json and --measure take no value.

{})",
      options_help(all_options(), IniFile::accepted, sections_of_info));
}

}  // namespace

extern const Command about_info = {
    .name = "info",
    .arguments = "[OPTIONS]",
    .summary = "shows ranks, CPUs, GPUs and problems",
    .switches = switches_of_info,
    .options = [] { return rows_of(all_options(), sections_of_info); },
    .help = info_help,
    .run = info};

}  // namespace shardstream::cli
