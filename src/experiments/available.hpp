// Checks the requirements of an experiment, and measures its ceilings.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "experiments/experiment.hpp"
#include "measure/ceilings.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::experiments {

/// Why this rank cannot run the experiment; empty if it can.
std::string obstacle(const Experiment& experiment, const runtime::Runtime& runtime);

/// Ceilings measured in this run.
struct Ceilings {
  std::vector<measure::Ceiling> of_all_ranks = {};
  std::map<std::string, double> own = {};  ///< of this rank, by name
};
/// Measures the ceilings that the experiments need. Collective.
Ceilings measure_ceilings(runtime::Runtime& runtime,
                          std::span<const Experiment* const> experiments);

/// Experiment::share with the ceilings of this rank to which it refers (Needs::ceilings): "of the
/// rate of uploads (link_up 54.3 GB/s)".
std::string share_with_ceilings(const Experiment& experiment, const Ceilings& ceilings);

}  // namespace shardstream::experiments
