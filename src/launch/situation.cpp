#include "launch/situation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "core/error.hpp"
#include "core/text.hpp"
#include "launch/affinity.hpp"
#include "launch/gpu_locality.hpp"

namespace shardstream::launch {
namespace {

/// One field of the text: tabs and line ends separate.
std::string field(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\t' || c == '\n'; }, ' ');
  return text;
}

int integer(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  expect(error == std::errc{} && end == text.data() + text.size(), "a rank's text holds numbers");
  return value;
}

}  // namespace

Situation observe(const Session& session) {
  Situation mine;
  mine.host = session.host();
  mine.cpus = granted_cpus();
  // Who shares CPUs with nobody takes them in any order, and is spared the look at the machine.
  if (session.local_size() > 1) mine.cpus = neighbours_together(mine.cpus);
  mine.host_cpus = host_cpus();
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "SLURM_GPUS_PER_TASK", "SLURM_TRES_PER_TASK",
                           "SLURM_GPU_BIND", "SLURM_JOB_ID"}) {
    const char* value = std::getenv(name);
    if (value != nullptr) mine.environment.push_back(fmt::format("{}={}", name, value));
  }
  return mine;
}

std::string to_text(const Situation& situation) {
  std::string text =
      fmt::format("{}\t{}\t{}\t{}\t{}\n", field(situation.host), list_of(situation.cpus),
                  situation.host_cpus, situation.built_with_cuda ? 1 : 0, field(situation.problem));
  for (const auto& entry : situation.environment) text += fmt::format("env\t{}\n", field(entry));
  for (const Gpu& gpu : situation.gpus) {
    text += fmt::format("gpu\t{}\t{}\t{}\t{}\t{}\n", field(gpu.uuid), field(gpu.pci),
                        field(gpu.name), gpu.numa_node, list_of(gpu.cpus));
  }
  return text;
}

Situation situation_of(std::string_view text) {
  Situation situation;
  const auto lines = split(text, '\n');  // trims, so an empty last field of a line is missing
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto f = split(lines[i], '\t');
    if (i == 0) {
      expect(f.size() >= 4, "a rank's text begins with its host");
      situation.host = f[0];
      situation.cpus = cpus_of(f[1]);
      situation.host_cpus = integer(f[2]);
      situation.built_with_cuda = f[3] == "1";
      if (f.size() > 4) situation.problem = f[4];
    } else if (f[0] == "env") {
      situation.environment.emplace_back(f.at(1));
    } else if (f[0] == "gpu") {
      situation.gpus.push_back({std::string(f.at(1)), std::string(f.at(2)), std::string(f.at(3)),
                                integer(f.at(4)), f.size() > 5 ? cpus_of(f[5]) : Cpus{}});
    }
  }
  return situation;
}

Plan take_places(const Session& session, const Situation& mine, const Wishes& wishes, Log& log) {
  const auto texts = session.gather(to_text(mine));
  Plan plan;
  session.collectively([&] {
    std::vector<Situation> all;
    for (const std::string& text : texts) all.push_back(situation_of(text));
    plan = place(all, wishes);
  });
  if (session.rank() == 0) {
    for (const auto& warning : plan.warnings) log.warn(warning);
    for (const auto& note : plan.notes) log.info(note);
  }
  const Cpus& cpus = plan.places[static_cast<std::size_t>(session.rank())].cpus;
  if (!wishes.bind || cpus.size() >= mine.cpus.size()) return plan;
  const std::string problem = bind_to(cpus);
  if (!problem.empty()) {
    log.warn(fmt::format("binding to CPUs {} failed ({}): this rank stays on all that it was given",
                         list_of(cpus), problem));
  }
  return plan;
}

}  // namespace shardstream::launch
