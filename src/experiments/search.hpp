// The search for words in the texts of all experiments.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/metric.hpp"
#include "experiments/experiment.hpp"

namespace shardstream::experiments {

/// A field of an experiment that contains all words of a search.
struct Match {
  const Experiment* experiment;
  std::string field;     ///< as the keys of `bench --list --json`, or "options"
  std::string sentence;  ///< the first sentence, option or section of the field with them
};

/// The sentences that contain all `words`, separated by blanks, in the order of the catalogue, at
/// most one for each field of an experiment. Capitals of ASCII count as small letters. Throws
/// UsageError if `words` are empty or no sentence contains them; the message suggests what to do.
std::vector<Match> matches_of(std::string_view words);

/// For `bench --search`: the experiments with their matches.
std::string search(std::string_view words, Printing printing);

}  // namespace shardstream::experiments
