#include "workloads/reduce/cells/cell_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/source/dimension_labels.hpp"
#include "io/source/dimension_match.hpp"
#include "io/source/matrix.hpp"
#include "workloads/reduce/reduce_statistics.hpp"
#include "workloads/weight_source.hpp"

namespace shardstream::workloads {
namespace {

constexpr std::string_view weights_key = "reduce.weights";

/// The dimensions of the weights, and of the data.
struct Sides {
  std::vector<std::size_t> own, kept;  ///< indices into Source::dimensions()
  std::vector<io::NamedLength> weights, data;
};

/// Whether two matches give every element the same weight: they differ only in dimensions with a
/// single index.
bool are_equal(const io::DimensionMatch& a, const io::DimensionMatch& b, const Sides& sides) {
  for (std::size_t i = 0; i < a.places.size(); ++i) {
    if (a.places[i] != b.places[i] && sides.weights[i].count > 1) return false;
  }
  return true;
}

/// Removes the matches for which `is_worse`, unless all are.
template <class IsWorse>
void prefer(std::vector<io::DimensionMatch>& matches, const IsWorse& is_worse) {
  if (!std::ranges::all_of(matches, is_worse)) std::erase_if(matches, is_worse);
}

/// The one match that open_weights() describes. Throws UsageError if there is none, or several.
io::DimensionMatch best_match(const Sides& sides, std::span<const std::size_t> reduced,
                              const std::string& weights) {
  std::vector<io::DimensionMatch> matches =
      io::match_dimensions(sides.weights, sides.data, io::MatchedLength::used_or_all);
  const std::string words =
      fmt::format("the weights {} ({})", weights, text_of(std::span(sides.weights)));
  const std::string data = text_of(std::span(sides.data));
  if (matches.empty()) {
    throw UsageError(
        fmt::format("{}: {} do not fit the data ({}): name weights for some of these dimensions",
                    weights_key, words, data));
  }
  const std::size_t most =
      std::ranges::max(matches, {}, &io::DimensionMatch::equal_names).equal_names;
  prefer(matches, [&](const io::DimensionMatch& each) { return each.equal_names < most; });
  prefer(matches, [&](const io::DimensionMatch& each) {
    return std::ranges::any_of(each.places, [&](std::size_t place) {
      return std::ranges::find(reduced, sides.kept[place]) == reduced.end();
    });
  });
  const bool agree = std::ranges::all_of(matches, [&](const io::DimensionMatch& each) {
    return are_equal(each, matches.front(), sides);
  });
  if (agree) return matches.front();
  throw UsageError(fmt::format(
      "{}: {} fit several dimensions of the data ({}): give the dimensions of both data sets the "
      "same names, by dimension scales or the attribute DIMENSION_LABELS",
      weights_key, words, data));
}

/// The dimensions of the weights in the order of the data.
std::vector<std::size_t> order_of(const io::DimensionMatch& match) {
  std::vector<std::size_t> order(match.places.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t d) { return match.places[d]; });
  return order;
}

/// The places of the weights of the used indices along the dimensions of the weights, in the order
/// of the data. Notes these and how they were paired.
WeightPlaces places_of(const io::Source& source, const io::Source& data, const Sides& sides,
                       const io::DimensionMatch& match, CellWeights& weights) {
  io::Extents all;
  for (const io::NamedLength& each : sides.weights) all.push_back(each.count);
  const io::Extents strides = io::row_major_strides(all);
  std::vector<WeightPlaces::Dimension> places;
  for (const std::size_t d : order_of(match)) {
    const std::size_t theirs = sides.kept[match.places[d]];
    places.push_back(
        {io::pair_elements(weights_key, source, sides.own[d], data, theirs), strides[d]});
    weights.dimensions.push_back(theirs);
    weights.paired.add(data, theirs, places.back().pairs.by());
  }
  return WeightPlaces(std::move(places));
}

/// Divides weights by a power of two, and returns its exponent: 0 unless the exponents of some are
/// so small or large that squares would leave the range of double.
int scale_exponents(std::vector<double>& weights) {
  constexpr int most = 400;
  int low = std::numeric_limits<int>::max(), high = std::numeric_limits<int>::min();
  for (const double weight : weights) {
    if (weight == 0) continue;
    low = std::min(low, std::ilogb(weight));
    high = std::max(high, std::ilogb(weight));
  }
  if (low >= -most && high <= most) return 0;
  const int middle = (low + high) / 2;
  for (double& weight : weights) weight = std::ldexp(weight, -middle);
  return middle;
}

/// A warning if no dimension of the weights is reduced, so that all elements of a cell have the
/// same weight, and an operation is then as without weights; else empty.
std::string warning_of_kept(const CellWeights& weights, const io::Source& data,
                            std::span<const std::size_t> reduced,
                            std::span<const std::string> ops) {
  const auto is_reduced = [&](std::size_t dimension) {
    return std::ranges::find(reduced, dimension) != reduced.end();
  };
  std::vector<std::string> without_effect, kept;
  for (const std::string& op : ops) {
    if (statistic(op).has(Statistic::ignores_equal_weights)) without_effect.push_back(op);
  }
  if (without_effect.empty() || std::ranges::any_of(weights.dimensions, is_reduced)) return {};
  const bool any_zero = std::ranges::find(weights.values, 0) != weights.values.end();
  for (const std::size_t dimension : weights.dimensions) {
    kept.push_back(printable(io::name_of_dimension(data, dimension)));
  }
  return fmt::format(
      "{} has no effect on {}: {} has weights along {} only, which reduce.over keeps, so all "
      "elements of a cell have the same weight{}",
      weights_key, fmt::join(without_effect, ", "), weights.name, fmt::join(kept, ", "),
      any_zero ? "; cells of weight 0 are undefined" : "");
}

}  // namespace

std::optional<CellWeights> open_weights(const Options& options, const io::Source& data,
                                        std::span<const std::size_t> reduced,
                                        std::span<const std::string> ops) {
  if (options.text(weights_key).empty()) return std::nullopt;
  const std::unique_ptr<io::Source> source = open_weight_source(options, weights_key);
  if (source->count() > max_weights) {
    throw UsageError(
        fmt::format("{}: {} has {} elements, but at most {} weights are kept in "
                    "memory: name weights along fewer dimensions",
                    weights_key, source->name(), source->count(), max_weights));
  }
  Sides sides{io::kept_dimensions(*source), io::kept_dimensions(data), {}, {}};
  sides.weights = io::lengths_of(*source, sides.own);
  sides.data = io::lengths_of(data, sides.kept);
  const io::DimensionMatch match = best_match(sides, reduced, source->name());
  CellWeights weights{.dimensions = {},
                      .values = {},
                      .name = source->name(),
                      .units = io::attribute_of(*source, "units"),
                      .paired = {},
                      .origin = source->origin()};
  const WeightPlaces places = places_of(*source, data, sides, match, weights);
  weights.values = places.pick(read_weights(*source));
  expect_weights(weights_key, *source, weights.values, places);
  warn_of_default_fill(options, *source, weights.values, weights.origin.warnings);
  weights.exponent = scale_exponents(weights.values);
  if (std::string warning = warning_of_kept(weights, data, reduced, ops); !warning.empty()) {
    weights.origin.warnings.push_back(std::move(warning));
  }
  return weights;
}

}  // namespace shardstream::workloads
