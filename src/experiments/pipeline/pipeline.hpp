// The group "pipeline": the buffer rings of a run, compared with plain copies, plain reads and the
// readers alone.
#pragma once

#include <vector>

#include "experiments/experiment.hpp"

namespace shardstream::experiments::feeds {

/// The group's rows of the catalogue.
std::vector<Experiment> experiments();

// These run on every backend.
Table feed(Bench& bench);
Table file_feed(Bench& bench);

}  // namespace shardstream::experiments::feeds
