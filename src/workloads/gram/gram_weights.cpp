#include "workloads/gram/gram_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "io/source/dimension_match.hpp"
#include "io/source/matrix.hpp"
#include "workloads/weight_source.hpp"

namespace shardstream::workloads {
namespace {

using Of = product::Weights::Of;

constexpr std::string_view gram_weights_key = "gram.weights";

/// The number of elements: of the used ones, or of all.
std::uint64_t total(std::span<const io::NamedLength> dimensions,
                    std::uint64_t io::NamedLength::*length = &io::NamedLength::count) {
  std::uint64_t count = 1;
  for (const io::NamedLength& each : dimensions) count = saturating_product(count, each.*length);
  return count;
}

/// A way in which weights can belong to samples or to variables: the weight of an element is at
/// the sum of the indices of its weight, each times the step of its dimension.
struct Match {
  Of of;
  std::vector<std::uint64_t> steps;
  /// The place of each dimension of the weights among those of the samples or variables; empty if
  /// the weights are flattened.
  std::vector<std::size_t> places = {};
  std::size_t equal_names = 0;
};

/// The steps of weights with one dimension that has a weight for each element: each used one, or
/// each one of the data set. Nothing if the weights are others.
std::optional<std::vector<std::uint64_t>> flattened_steps(
    std::span<const io::NamedLength> weights, std::span<const io::NamedLength> dimensions) {
  if (weights.size() != 1 || dimensions.size() < 2) return std::nullopt;
  const bool has_used = weights[0].count == total(dimensions);
  const auto length = has_used ? &io::NamedLength::count : &io::NamedLength::extent;
  if (weights[0].count != total(dimensions, length)) return std::nullopt;
  std::vector<std::uint64_t> steps(dimensions.size());
  std::uint64_t step = 1;
  for (std::size_t d = dimensions.size(); d-- > 0; step *= dimensions[d].*length) {
    steps[d] = dimensions[d].*length > 1 ? step : 0;
  }
  return steps;
}

/// All ways in which the weights can belong to samples or to variables with these dimensions.
std::vector<Match> matches_of(std::span<const io::NamedLength> weights,
                              std::span<const io::NamedLength> dimensions, Of of) {
  std::vector<Match> matches;
  for (io::DimensionMatch& found :
       io::match_dimensions(weights, dimensions, io::MatchedLength::used_or_all)) {
    Match match{.of = of, .steps = std::vector<std::uint64_t>(dimensions.size())};
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i].count == 1) continue;  // the only index is 0
      match.steps[found.places[i]] = total(weights.subspan(i + 1));
    }
    match.places = std::move(found.places);
    match.equal_names = found.equal_names;
    matches.push_back(std::move(match));
  }
  if (auto steps = flattened_steps(weights, dimensions)) {
    matches.push_back({.of = of, .steps = *std::move(steps)});
  }
  return matches;
}

/// Removes all but one of the matches with the same meaning, which dimensions of extent 1 cause.
void remove_equal(std::vector<Match>& matches) {
  std::vector<Match> distinct;
  for (const Match& match : matches) {
    const bool is_new = std::ranges::none_of(distinct, [&](const Match& each) {
      return each.of == match.of && each.steps == match.steps;
    });
    if (is_new) distinct.push_back(match);
  }
  matches = std::move(distinct);
}

/// The one match with the most equal names, of at least one. Throws UsageError if there are
/// several.
Match best_match(std::vector<Match> matches, const std::string& weights, const std::string& samples,
                 const std::string& variables) {
  std::ranges::stable_sort(matches, std::ranges::greater{}, &Match::equal_names);
  const std::size_t most = matches.front().equal_names;
  std::erase_if(matches, [&](const Match& each) { return each.equal_names < most; });
  remove_equal(matches);
  if (matches.size() == 1) return matches.front();
  if (matches.front().of != matches.back().of) {
    throw UsageError(fmt::format(
        "{}: {} fit the samples ({}) and the variables ({}): pass --gram.weight-of samples or "
        "variables",
        gram_weights_key, weights, samples, variables));
  }
  const bool of_samples = matches.front().of == Of::samples;
  throw UsageError(fmt::format(
      "{}: {} fit several dimensions of the {} ({}): give them the name of their dimension, or "
      "name a weight for each",
      gram_weights_key, weights, of_samples ? "samples" : "variables",
      of_samples ? samples : variables));
}

std::uint64_t used_elements(const io::Source& data, std::span<const std::size_t> dimensions) {
  return total(io::lengths_of(data, dimensions));
}

/// The places of the weights of the samples or variables. Notes how they were paired with these.
WeightPlaces places_of(const io::Source& source, const io::Source& data, const Match& match,
                       std::span<const std::size_t> dimensions, io::PairedDimensions& paired) {
  const std::vector<std::size_t> own = io::kept_dimensions(source);
  std::vector<WeightPlaces::Dimension> places;
  for (std::size_t place = 0; place < dimensions.size(); ++place) {
    const std::size_t theirs = dimensions[place];
    const auto found = std::ranges::find(match.places, place);
    const io::SourceDimension& along = data.dimensions()[theirs];
    if (found != match.places.end()) {
      const std::size_t which = own[static_cast<std::size_t>(found - match.places.begin())];
      places.push_back(
          {io::pair_elements(gram_weights_key, source, which, data, theirs), match.steps[place]});
    } else {
      const bool has_all =
          match.places.empty() && source.count() != used_elements(data, dimensions);
      const std::uint64_t elements = has_all ? along.extent : along.axis.count;
      places.push_back(
          {{along.axis, elements, io::DimensionPairs::By::position}, match.steps[place]});
    }
    if (found != match.places.end() || match.places.empty()) {
      paired.add(data, theirs, places.back().pairs.by());
    }
  }
  return WeightPlaces(std::move(places));
}

}  // namespace

std::optional<product::Weights> open_weights(const Options& options,
                                             const product::Operands& operands) {
  const std::string& requested = options.text("gram.weight-of");
  if (options.text(gram_weights_key).empty()) {
    if (!options.is_on_command_line("gram.weight-of")) return std::nullopt;
    throw UsageError(fmt::format(
        "gram.weight-of is {}, but gram.weights is empty: name the weights, or leave it out",
        requested));
  }
  const std::unique_ptr<io::Source> source = open_weight_source(options, gram_weights_key);
  const io::Source& data = operands.a->source();
  const auto samples = io::lengths_of(data, operands.dimensions_of(Of::samples));
  const auto variables = io::lengths_of(data, operands.dimensions_of(Of::variables));
  const auto own = io::lengths_of(*source, io::kept_dimensions(*source));
  std::vector<Match> matches;
  if (requested != "variables") matches = matches_of(own, samples, Of::samples);
  if (requested != "samples") {
    std::ranges::copy(matches_of(own, variables, Of::variables), std::back_inserter(matches));
  }
  const std::string words = fmt::format("the weights {} ({})", source->name(), text_of(own));
  if (matches.empty()) {
    const bool any = requested == "auto";
    throw UsageError(fmt::format(
        "{}: {} do not fit the {}{}{}: name a weight for each, or for each index of a dimension",
        gram_weights_key, words,
        any || requested == "samples" ? fmt::format("samples ({})", text_of(samples)) : "",
        any ? " or the " : "",
        any || requested == "variables" ? fmt::format("variables ({})", text_of(variables)) : ""));
  }
  const Match match = best_match(std::move(matches), words, text_of(samples), text_of(variables));
  product::Weights weights{.of = match.of, .name = source->name(), .origin = source->origin()};
  const WeightPlaces places =
      places_of(*source, data, match, operands.dimensions_of(match.of), weights.paired);
  weights.values = places.pick(read_weights(*source));
  expect_weights(gram_weights_key, *source, weights.values, places);
  warn_of_default_fill(options, *source, weights.values, weights.origin.warnings);
  return weights;
}

}  // namespace shardstream::workloads
