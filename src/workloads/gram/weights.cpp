#include "workloads/gram/weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/source/labels.hpp"
#include "io/source/matrix.hpp"

namespace shardstream::workloads {
namespace {

using Of = product::Weights::Of;

constexpr std::string_view key = "gram.weights";

std::unique_ptr<io::Matrix> open_data_set(const Options& options) {
  if (!io::names_file(options, key)) {
    throw UsageError(fmt::format("{} is {}, which names no file: write FILE:/PATH or FILE", key,
                                 excerpt(options.text(key))));
  }
  auto source = io::open_source(
      options, {.key = key, .shape = {}, .type = ElementType::f64, .seed = 0, .keeps_type = true});
  const std::vector<std::size_t> kept = io::kept_dimensions(*source);
  auto dimensions =
      kept.empty() ? io::MatrixDimensions{} : io::one_and_others(*source, kept.front());
  return std::make_unique<io::Matrix>(std::move(source), std::move(dimensions));
}

/// The weights, row by row.
std::vector<double> read(const io::Matrix& matrix) {
  const std::uint64_t columns = matrix.columns();
  std::vector<double> values(matrix.rows() * columns);
  with_element_type(matrix.type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<T> stored(values.size());
    matrix.read({0, matrix.rows()}, {0, columns}, reinterpret_cast<std::byte*>(stored.data()),
                columns * sizeof(T));
    std::ranges::transform(stored, values.begin(), [](T x) { return static_cast<double>(x); });
  });
  return values;
}

/// Throws UsageError with the first weight that is not possible.
void check(const io::Matrix& matrix, const std::vector<double>& values) {
  const auto wrong =
      std::ranges::find_if(values, [](double w) { return !(w >= 0) || !std::isfinite(w); });
  if (wrong != values.end()) {
    const auto index = static_cast<std::uint64_t>(wrong - values.begin());
    const io::Extents at = matrix.coordinates(index / matrix.columns(), index % matrix.columns());
    throw UsageError(fmt::format(
        "{}: element [{}] of {} is {}: weights must be finite numbers that are not negative; write "
        "0 for what should not count",
        key, join(at, ", "), matrix.name(),
        std::isnan(*wrong) ? std::string("NaN, or missing") : fmt::format("{}", *wrong)));
  }
  if (std::ranges::all_of(values, [](double w) { return w == 0; })) {
    throw UsageError(fmt::format("{}: all {} of {} are 0: name other weights", key,
                                 counted(values.size(), "weight"), matrix.name()));
  }
}

/// Dimensions of weights, of samples or of variables.
struct Named {
  std::string name;  ///< empty if it has none
  std::uint64_t count;
};

std::vector<Named> named(const io::Source& source, const std::vector<std::size_t>& dimensions) {
  std::vector<Named> made;
  for (const std::size_t d : dimensions) {
    made.push_back({source.dimensions()[d].name, source.dimensions()[d].axis.count});
  }
  return made;
}

std::string text_of(const std::vector<Named>& dimensions) {
  return join(dimensions, " x ", [](const Named& each) {
    return each.name.empty() ? fmt::format("{}", each.count)
                             : fmt::format("{}={}", each.name, each.count);
  });
}

std::uint64_t total(const std::vector<Named>& dimensions) {
  std::uint64_t count = 1;
  for (const Named& each : dimensions) count *= each.count;
  return count;
}

/// A way in which weights can belong to samples or to variables: the weight of an element is at
/// the sum of its indices, each times the step of its dimension.
struct Match {
  Of of;
  std::vector<std::uint64_t> steps;
  /// The place of each dimension of the weights among those of the samples or variables; empty if
  /// the weights are flattened.
  std::vector<std::size_t> places = {};
  std::size_t equal_names = 0;
};

/// Adds all ways to find the dimensions of the weights from `next` on among those from `first` on,
/// in this order. Two dimensions fit if their counts are equal, and their names if both have one.
void add_matches(const std::vector<Named>& weights, const std::vector<Named>& dimensions,
                 std::size_t next, std::size_t first, const Match& so_far,
                 std::vector<Match>& matches) {
  if (next == weights.size()) {
    matches.push_back(so_far);
    return;
  }
  const Named& wanted = weights[next];
  const std::uint64_t step =
      total({weights.begin() + static_cast<std::ptrdiff_t>(next) + 1, weights.end()});
  for (std::size_t d = first; d < dimensions.size(); ++d) {
    const bool have_names = !wanted.name.empty() && !dimensions[d].name.empty();
    const bool fits =
        wanted.count == dimensions[d].count && (!have_names || wanted.name == dimensions[d].name);
    if (!fits) continue;
    Match match = so_far;
    match.steps[d] = dimensions[d].count > 1 ? step : 0;  // the only index is 0
    match.places.push_back(d);
    match.equal_names += have_names ? 1 : 0;
    add_matches(weights, dimensions, next + 1, d + 1, match, matches);
  }
}

/// All ways in which the weights can belong to samples or to variables with these dimensions.
std::vector<Match> matches_of(const std::vector<Named>& weights,
                              const std::vector<Named>& dimensions, Of of) {
  std::vector<Match> matches;
  if (weights.empty()) return matches;
  const Match none{.of = of, .steps = std::vector<std::uint64_t>(dimensions.size())};
  add_matches(weights, dimensions, 0, 0, none, matches);
  if (weights.size() == 1 && dimensions.size() > 1 && weights[0].count == total(dimensions)) {
    Match flattened = none;  // one dimension has a weight for each element
    std::uint64_t step = 1;
    for (std::size_t d = dimensions.size(); d-- > 0; step *= dimensions[d].count) {
      flattened.steps[d] = dimensions[d].count > 1 ? step : 0;
    }
    matches.push_back(flattened);
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
        key, weights, samples, variables));
  }
  const bool of_samples = matches.front().of == Of::samples;
  throw UsageError(fmt::format(
      "{}: {} fit several dimensions of the {} ({}): give them the name of their dimension, or "
      "name a weight for each",
      key, weights, of_samples ? "samples" : "variables", of_samples ? samples : variables));
}

/// The weight of each sample or variable.
std::vector<double> expanded(const std::vector<double>& weights, const Match& match,
                             const std::vector<Named>& dimensions) {
  std::vector<double> values(total(dimensions));
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    std::uint64_t rest = i, at = 0;
    for (std::size_t d = dimensions.size(); d-- > 0; rest /= dimensions[d].count) {
      at += rest % dimensions[d].count * match.steps[d];
    }
    values[i] = weights[at];
  }
  return values;
}

/// The coordinates of a dimension, as far as it is used; nothing if it has none that can be read.
std::optional<io::Labels> coordinates_of(const io::Source& source, std::size_t dimension) {
  std::vector<std::string> warnings;  // coordinates that cannot be read cannot be compared
  std::vector<io::Labels> labels = io::labels_of(source, {&dimension, 1}, warnings);
  if (labels.empty() || !labels[0].are_coordinates) return std::nullopt;
  return labels[0];
}

std::string units_of(const io::Labels& labels) {
  const auto found =
      std::ranges::find(labels.attributes, "units", &std::pair<std::string, std::string>::first);
  return found == labels.attributes.end() ? "" : found->second;
}

/// Throws UsageError if a dimension of the weights and its dimension of the data have different
/// coordinates in the same units: the weights are then those of other points, or in another order.
void check_coordinates(const io::Matrix& weights, const io::Matrix& data, const Match& match,
                       const std::vector<std::size_t>& dimensions) {
  const std::vector<std::size_t> own = io::kept_dimensions(weights.source());
  for (std::size_t i = 0; i < match.places.size(); ++i) {
    const auto mine = coordinates_of(weights.source(), own[i]);
    const auto theirs = coordinates_of(data.source(), dimensions[match.places[i]]);
    if (!mine || !theirs || units_of(*mine) != units_of(*theirs)) continue;
    const bool floats = mine->type == ElementType::f32 || theirs->type == ElementType::f32;
    const auto differs = [floats](double a, double b) {
      if (std::isnan(a) && std::isnan(b)) return false;
      return floats ? static_cast<float>(a) != static_cast<float>(b) : a != b;
    };
    const auto [a, b] = std::ranges::mismatch(mine->values, theirs->values, std::not_fn(differs));
    if (a == mine->values.end()) continue;
    throw UsageError(fmt::format(
        "{}: the coordinates of the dimension '{}' of {} differ from those of {}, at first {} from "
        "{}: select the same coordinates of both, in the same order",
        key, printable(mine->name), weights.name(), data.name(), *a, *b));
  }
}

}  // namespace

std::optional<product::Weights> open_weights(const Options& options,
                                             const product::Operands& operands) {
  const std::string& requested = options.text("gram.weight-of");
  if (options.text(key).empty()) {
    if (!options.is_on_command_line("gram.weight-of")) return std::nullopt;
    throw UsageError(fmt::format(
        "gram.weight-of is {}, but gram.weights is empty: name the weights, or leave it out",
        requested));
  }
  const std::unique_ptr<io::Matrix> matrix = open_data_set(options);
  const io::Source& data = operands.a->source();
  const std::vector<Named> samples = named(data, operands.dimensions_of(Of::samples));
  const std::vector<Named> variables = named(data, operands.dimensions_of(Of::variables));
  const std::vector<Named> own = named(matrix->source(), io::kept_dimensions(matrix->source()));
  std::vector<Match> matches;
  if (requested != "variables") matches = matches_of(own, samples, Of::samples);
  if (requested != "samples") {
    std::ranges::copy(matches_of(own, variables, Of::variables), std::back_inserter(matches));
  }
  const std::string words = fmt::format("the weights {} ({})", matrix->name(), text_of(own));
  if (matches.empty()) {
    const bool any = requested == "auto";
    throw UsageError(fmt::format(
        "{}: {} do not fit the {}{}{}: name a weight for each, or for each index of a dimension",
        key, words,
        any || requested == "samples" ? fmt::format("samples ({})", text_of(samples)) : "",
        any ? " or the " : "",
        any || requested == "variables" ? fmt::format("variables ({})", text_of(variables)) : ""));
  }
  const Match match = best_match(std::move(matches), words, text_of(samples), text_of(variables));
  check_coordinates(*matrix, *operands.a, match, operands.dimensions_of(match.of));
  const std::vector<double> values = read(*matrix);
  check(*matrix, values);
  return product::Weights{
      .of = match.of,
      .values = expanded(values, match, match.of == Of::samples ? samples : variables),
      .name = matrix->name(),
      .origin = matrix->origin()};
}

}  // namespace shardstream::workloads
