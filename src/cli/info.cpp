// What each rank sees and binds, for whoever asks what a run would have, or what is wrong: all that
// can be seen is shown before the refusal that a run would have met.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <optional>

#include "cli/commands.hpp"
#include "core/log.hpp"
#include "core/shard.hpp"
#include "core/table.hpp"
#include "core/text.hpp"
#include "launch/cpus.hpp"
#include "launch/session.hpp"
#include "measure/ceilings.hpp"
#include "measure/source_ceilings.hpp"
#include "pipeline/options.hpp"
#include "runtime/provenance.hpp"
#include "runtime/slow_links.hpp"
#include "runtime/topology.hpp"
#include "workloads/registry.hpp"

namespace shardstream::cli {
namespace {

constexpr std::array<std::string_view, 2> switches = {"json", "measure"};

/// How to show it.
struct Wishes {
  bool json = false, measure = false;
};

Options parse(const Arguments& arguments, const char* const* environment, Wishes& wishes) {
  const OptionTable table = all_options();
  const CommandLine line = table.parse_command_line(arguments, switches);
  std::optional<std::filesystem::path> ini;
  for (const std::string& word : line.words) {
    if (ini || !word.ends_with(".ini")) {
      throw UsageError(
          fmt::format("info takes one configuration file (NAME.ini) at the most, but there is "
                      "'{}': see shardstream info --help",
                      word));
    }
    ini = word;
  }
  wishes = {.json = line.switches.contains("json"), .measure = line.switches.contains("measure")};
  return table.resolve(line, environment, ini);
}

/// How a run with the same options would read.
struct Plan {
  Range mine;
  pipeline::Sizes sizes;
};

/// Throws AgreedError where memory does not suffice. Collective.
Plan plan_reading(const runtime::Runtime& runtime, const io::Source& source) {
  const launch::Session& session = runtime.session;
  Plan plan{.mine = share(source.order().count(), static_cast<std::uint64_t>(session.rank()),
                          static_cast<std::uint64_t>(session.size())),
            .sizes = {}};
  session.collectively([&] {
    plan.sizes = pipeline::plan(runtime.options, runtime.resources, plan.mine.count,
                                size_of(source.type()), 1, 0, 0);
  });
  return plan;
}

/// The limits of this machine, all ranks at work, and of what the source gives. Collective.
std::vector<measure::Ceiling> measure_ceilings(runtime::Runtime& runtime, io::Source& source,
                                               const Plan& plan) {
  device::Device& device = *runtime.device;
  const launch::Session& session = runtime.session;
  const runtime::Resources& resources = runtime.resources;
  const pipeline::Sizes& sizes = plan.sizes;
  const std::uint64_t sample =
      measure::host_memory_sample(resources.cache, resources.host_memory, resources.ranks_on_host);
  const auto effort =
      measure::effort_for(device, session, std::uint64_t{16} << 30, sample, sizes.device_limit);
  std::vector<measure::Ceiling> ceilings;
  for (const auto way : {measure::Way::up, measure::Way::down, measure::Way::both}) {
    ceilings.push_back(measure::link(way, device, session, effort));
  }
  ceilings.push_back(measure::device_read(device, session, effort));
  ceilings.push_back(measure::device_copy(device, session, effort));
  ceilings.push_back(measure::arithmetic<float>(device, session, effort));
  ceilings.push_back(measure::arithmetic<double>(device, session, effort));
  {
    const measure::HostMemory memory(session, resources.threads, sample);
    ceilings.push_back(memory.read());
    ceilings.push_back(
        memory.copy({sizes.readers, sizes.slots, sizes.slot * size_of(source.type())}));
  }
  constexpr std::size_t gathered = std::size_t{64} << 10;  // about what a reduction gathers
  const auto gather = measure::all_gather(device, *runtime.communicator, session, effort, gathered);
  if (gather) ceilings.push_back(*gather);
  const measure::PageCache cache = measure::page_cache(session, source, plan.mine);
  session.collectively([&] { source.prepare(plan.mine); });
  for (auto& ceiling :
       measure::source_ceilings(session, source, plan.mine, {sizes.readers, sizes.slot}, cache)) {
    ceilings.push_back(std::move(ceiling));
    ceilings.back().on_path = false;  // there is no run
  }
  return ceilings;
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
Table findings_here(const launch::Session& session, const Log& log, const device::Nvml& nvml,
                    bool has_gpus, std::span<const launch::AgreedError> refusals) {
  Table table("findings", {{"kind", ColumnType::text}, {"finding", ColumnType::text}});
  if (session.local_rank() == 0) {
    if (has_gpus && !nvml.problem().empty()) {
      table.add(
          {"note", printable(fmt::format("NVML tells nothing of GPUs ({})", nvml.problem()))});
    }
    for (const auto& gpu : nvml.gpus()) {
      const auto errors = gpu.ecc_errors().since_load;
      if (errors <= 0) continue;
      table.add(
          {"warning",
           fmt::format("the GPU at {} has met {} memory errors that it could not correct: have it "
                       "checked",
                       gpu.facts().pci, errors)});
    }
  }
  for (const auto& warning : log.warnings()) table.add({"warning", printable(warning)});
  for (const auto& refusal : refusals) {
    if (refusal.speaks()) table.add({"problem", printable(refusal.what())});
  }
  return table;
}

/// Wide tables are folded; sentences, in narrow ones, are not.
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

ExitCode show(const launch::Session& session, const Options& options, Log& log,
              const Wishes& wishes) {
  std::vector<launch::AgreedError> refusals;  // the first is thrown once everything is shown
  const auto attempt = [&](const auto& step) {
    try {
      step();
    } catch (const launch::AgreedError& error) {
      refusals.push_back(error);
    }
  };
  std::unique_ptr<io::Source> source;
  std::optional<runtime::Runtime> runtime;
  attempt([&] { session.collectively([&] { launch::check_expected_ranks(session, options); }); });
  attempt([&] {
    session.collectively([&] { source = io::open_source(options); });
    session.collectively([&] { workloads::expect_same_inputs(session, io::identity_of(*source)); });
  });
  if (source && session.rank() == 0) {
    for (const std::string& warning : source->origin().warnings) log.warn(warning);
  }
  attempt([&] { runtime.emplace(session, options, log); });
  const device::Nvml nvml(device::Nvml::usual_name);
  device::Device* device = runtime ? runtime->device.get() : nullptr;
  const auto topology =
      runtime::observe({.session = session,
                        .threads = runtime ? runtime->resources.threads
                                           : static_cast<unsigned>(launch::granted_cpus().size()),
                        .device = device,
                        .nvml = nvml,
                        .ask_cuda = options.text("device.backend") != "host"});
  std::vector<Table> tables = {
      versions(device, nvml, runtime ? runtime->communicator.get() : nullptr), topology.ranks,
      topology.gpus, topology.peers};
  if (runtime && source) {
    attempt([&] {
      const Plan plan = plan_reading(*runtime, *source);
      if (!wishes.measure) return;
      const auto ceilings = measure_ceilings(*runtime, *source, plan);
      runtime::warn_of_slow_links(*runtime, ceilings);
      tables.push_back(measure::ceilings_table(ceilings));
    });
  }
  tables.push_back(launch::gather(
      session, findings_here(session, log, nvml, !topology.gpus.rows().empty(), refusals)));
  session.collectively([&] {
    if (session.rank() == 0) print_output(wishes.json ? to_json(tables) : as_text(tables));
  });
  if (!refusals.empty()) throw launch::AgreedError(refusals.front());
  return ExitCode::done;
}

}  // namespace

int info(const Arguments& arguments, const char* const* environment) {
  Wishes wishes;
  return in_session([&] { return parse(arguments, environment, wishes); },
                    [&](const launch::Session& session, const Options& options, Log& log) {
                      // One word for all: measuring is collective.
                      wishes.measure = !session.broadcast(wishes.measure ? "yes" : "").empty();
                      return show(session, options, log, wishes);
                    });
}

}  // namespace shardstream::cli
