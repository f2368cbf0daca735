#include "experiments/available.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "experiments/context.hpp"
#include "kernels/kernel.hpp"
#include "measure/source_ceilings.hpp"

namespace shardstream::experiments {

std::string obstacle(const Experiment& experiment, const runtime::Runtime& runtime) {
  const Needs& needs = experiment.needs;
  if (!needs.file.empty() && runtime.options.text(needs.file).empty()) {
    return fmt::format("no file is named: add --{} FILE.h5:/PATH; shardstream generate writes one",
                       needs.file);
  }
  if (runtime.session.size() < needs.ranks) {
    return fmt::format("the experiment needs {} ranks: start them with mpirun -np {}", needs.ranks,
                       needs.ranks);
  }
  const device::DeviceInfo& device = runtime.device->info();
  if (device.backend != "cuda" && experiment.run_host != nullptr) return {};
  if (!built_with_cuda) return "this program was built without CUDA";
  if (device.backend != "cuda") return "there is no GPU, or device.backend is host";
  if (device.compute_capability < needs.compute_capability) {
    return fmt::format("{} has compute capability {}.{}, and the experiment needs {}.{}",
                       device.name, device.compute_capability / 10, device.compute_capability % 10,
                       needs.compute_capability / 10, needs.compute_capability % 10);
  }
  if (const int gpus = visible_gpus(); gpus < needs.gpus) {
    return fmt::format("the experiment needs {} GPUs, and this rank sees {}", needs.gpus, gpus);
  }
  return {};
}

Ceilings measure_ceilings(runtime::Runtime& runtime,
                          std::span<const Experiment* const> experiments) {
  const ranks::Session& session = runtime.session;
  device::Device& device = *runtime.device;
  const auto effort = measure::effort_for(
      device, session, std::uint64_t{16} << 30,
      measure::host_memory_sample(runtime.resources.cache, runtime.resources.host_memory,
                                  runtime.resources.ranks_on_host),
      runtime.resources.device_memory);
  using Measure = measure::Ceiling (*)(device::Device&, const ranks::Session&, measure::Effort);
  const std::array<std::pair<std::string_view, Measure>, 5> known = {{
      {"device_read", measure::device_read},
      {"device_copy", measure::device_copy},
      {"link_up",
       [](auto& d, auto& s, auto e) { return measure::link(measure::LinkDirection::up, d, s, e); }},
      {"link_down", [](auto& d, auto& s,
                       auto e) { return measure::link(measure::LinkDirection::down, d, s, e); }},
      {"link_both", [](auto& d, auto& s,
                       auto e) { return measure::link(measure::LinkDirection::both, d, s, e); }},
  }};
  Ceilings ceilings;
  for (const auto& [name, measure] : known) {
    const auto needs_it = [&](const Experiment* experiment) {
      return experiment->needs.has_ceiling(name);
    };
    if (!std::ranges::any_of(experiments, needs_it)) continue;
    ceilings.of_all_ranks.push_back(measure(device, session, effort));
    ceilings.own[std::string(name)] =
        ceilings.of_all_ranks.back().by_rank[static_cast<std::size_t>(session.rank())];
  }
  return ceilings;
}

std::string share_with_ceilings(const Experiment& experiment, const Ceilings& ceilings) {
  std::string values;
  for (const std::string_view name : experiment.needs.ceilings) {
    const auto found = ceilings.own.find(std::string(name));
    if (found == ceilings.own.end()) continue;
    values += fmt::format("{}{} {:.4g} GB/s", values.empty() ? "" : ", ", name, found->second);
  }
  const std::string share(experiment.share);
  return share.empty() || values.empty() ? share : fmt::format("{} ({})", share, values);
}

}  // namespace shardstream::experiments
