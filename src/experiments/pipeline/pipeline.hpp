// The group "pipeline": the program's own rings beside plain copies, plain reads and their readers.
#pragma once

#include <vector>

#include "experiments/experiment.hpp"

namespace shardstream::experiments::feeds {

/// The group's rows of the catalogue.
std::vector<Experiment> experiments();

// Each is written for every backend.
Table feed(Bench& bench);
Table file_feed(Bench& bench);

}  // namespace shardstream::experiments::feeds
