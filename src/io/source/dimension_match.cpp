#include "io/source/dimension_match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/source/coordinate_scale.hpp"
#include "io/source/joined/coordinates.hpp"

namespace shardstream::io {
namespace {

/// Adds all matches that begin with `so_far`.
void add_matches(std::span<const NamedLength> own, std::span<const NamedLength> data,
                 MatchedLength length, const DimensionMatch& so_far,
                 std::vector<DimensionMatch>& matches) {
  constexpr std::size_t max_matches = 4096;  // far more than one
  if (matches.size() == max_matches) return;
  const std::size_t next = so_far.places.size();
  if (next == own.size()) {
    matches.push_back(so_far);
    return;
  }
  const NamedLength& wanted = own[next];
  for (std::size_t d = 0; d < data.size(); ++d) {
    const bool have_names = !wanted.name.empty() && !data[d].name.empty();
    const bool fits = wanted.count == data[d].count ||
                      (length == MatchedLength::used_or_all && wanted.count == data[d].extent);
    const bool is_free = std::ranges::none_of(so_far.places, [&](std::size_t place) {
      return have_names && data[place].name != wanted.name ? place == d : place >= d;
    });
    if (!fits || !is_free || (have_names && wanted.name != data[d].name)) continue;
    DimensionMatch match = so_far;
    match.places.push_back(d);
    match.equal_names += have_names ? 1 : 0;
    add_matches(own, data, length, match, matches);
  }
}

/// The coordinates of the used indices, or nothing if they cannot be read. Times of joined files in
/// different units are microseconds since 1970.
std::optional<Labels> comparable_coordinates(const Source& source, std::size_t dimension) {
  std::vector<std::string> warnings;  // coordinates that cannot be read cannot be compared
  if (dimension > 0 || source.origin().mixed_units.empty()) {
    return coordinates_of(source, dimension, warnings);
  }
  try {
    const auto& [name, extent, axis] = source.dimensions()[dimension];
    const auto all = joined_times(source.origin());
    if (!all || all->values.size() != extent) return std::nullopt;
    Labels used{name, all->type, {}, all->attributes, true};
    for (std::uint64_t i = 0; i < axis.count; ++i) used.values.push_back(all->values[axis[i]]);
    return used;
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

/// The coordinates of another data set and those of the data along one dimension.
struct BothCoordinates {
  std::string_view option;
  const std::string& name;  ///< of the other data set
  const Labels& own;
  const Labels& theirs;  ///< of the used indices of the data
  const Source& data;
  CommonScale scale = {{own.type, own.attributes}, {theirs.type, theirs.attributes}};

  [[noreturn]] void fail(const std::string& problem, const char* remedy) const {
    throw UsageError(fmt::format("{}: the coordinates of the dimension '{}' of {} {} {}: {}",
                                 option, printable(own.name), name, problem, data.name(), remedy));
  }

  /// Whether elements with the same positions have the same coordinates.
  bool are_in_order(const DimensionPairs& positions) const {
    for (std::uint64_t i = 0; i < positions.count(); ++i) {
      if (!scale.are_same(own.values[positions[i]], theirs.values[i])) return false;
    }
    return true;
  }

  /// The element with each coordinate of the data.
  std::vector<std::uint64_t> elements() const;
};

std::vector<std::uint64_t> BothCoordinates::elements() const {
  using Number = CoordinateScale::Number;
  std::vector<std::pair<Number, std::uint64_t>> sorted;
  for (std::uint64_t i = 0; i < own.values.size(); ++i) {
    if (!std::isnan(own.values[i])) sorted.emplace_back(scale.of_one(own.values[i]), i);
  }
  const auto value = [](const auto& each) { return each.first.value; };
  std::ranges::sort(sorted, {}, value);
  const auto largest =
      std::ranges::max_element(sorted, {}, [](const auto& each) { return each.first.error; });
  std::vector<std::uint64_t> found;
  for (const double coordinate : theirs.values) {
    const Number wanted = scale.of_two(coordinate);
    const long double reach = wanted.error + (sorted.empty() ? 0 : largest->first.error);
    auto at = std::ranges::lower_bound(sorted, wanted.value - reach, {}, value);
    while (at != sorted.end() && at->first.value < wanted.value && !(at->first == wanted)) ++at;
    if (at == sorted.end() || !(at->first == wanted)) {
      fail(fmt::format("lack {}, which is one of", coordinate),
           "select the same coordinates of both");
    }
    if (const auto next = at + 1; next != sorted.end() && next->first == wanted) {
      fail(fmt::format("have {} several times, in another order than", coordinate),
           "give both the same order");
    }
    found.push_back(at->second);
  }
  return found;
}

}  // namespace

std::vector<NamedLength> lengths_of(const Source& source, std::span<const std::size_t> dimensions) {
  std::vector<NamedLength> made;
  for (const std::size_t d : dimensions) {
    const SourceDimension& each = source.dimensions()[d];
    made.push_back({each.name, each.axis.count, each.extent});
  }
  return made;
}

std::string text_of(std::span<const NamedLength> dimensions) {
  return join(dimensions, " x ", [](const NamedLength& each) {
    return each.name.empty() ? fmt::format("{}", each.count)
                             : fmt::format("{}={}", printable(each.name), each.count);
  });
}

std::vector<DimensionMatch> match_dimensions(std::span<const NamedLength> own,
                                             std::span<const NamedLength> data,
                                             MatchedLength length) {
  std::vector<DimensionMatch> matches;
  if (!own.empty()) add_matches(own, data, length, {}, matches);
  return matches;
}

DimensionPairs::DimensionPairs(const Axis& axis, std::uint64_t elements, By by)
    : by_(by), axis_(elements == axis.count ? Axis{.count = elements} : axis) {}

DimensionPairs::DimensionPairs(std::vector<std::uint64_t> elements)
    : by_(By::reordered_coordinates),
      axis_{.count = elements.size()},
      elements_(std::move(elements)) {}

DimensionPairs pair_elements(std::string_view option, const std::string& name,
                             const std::optional<Labels>& own, std::uint64_t elements,
                             const Source& data, std::size_t dimension) {
  const Axis& axis = data.dimensions()[dimension].axis;
  const auto theirs = own ? comparable_coordinates(data, dimension) : std::nullopt;
  if (!theirs) return {axis, elements, DimensionPairs::By::position};
  expect(own->values.size() == elements, "each element has a coordinate");
  const BothCoordinates both{option, name, *own, *theirs, data};
  if (const std::string& units = both.scale.conflict(); !units.empty()) {
    both.fail(fmt::format("have other units ({}) than those of", units),
              "correct the units, or remove them from one of the files to compare the numbers");
  }
  try {
    DimensionPairs positions(axis, elements, DimensionPairs::By::coordinates);
    if (both.are_in_order(positions)) return positions;
    return DimensionPairs(both.elements());
  } catch (const UsageError& error) {
    const std::string message = error.what();  // of a value that is no time in its units
    throw UsageError(message.starts_with(option) ? message
                                                 : fmt::format("{}: {}", option, message));
  }
}

DimensionPairs pair_elements(std::string_view option, const Source& source, std::size_t own,
                             const Source& data, std::size_t dimension) {
  return pair_elements(option, source.name(), comparable_coordinates(source, own),
                       source.dimensions()[own].axis.count, data, dimension);
}

void PairedDimensions::add(const Source& data, std::size_t dimension, DimensionPairs::By by) {
  if (by == DimensionPairs::By::coordinates) return;
  auto& names = by == DimensionPairs::By::position ? by_position : reordered;
  names.push_back(printable(name_of_dimension(data, dimension)));
}

}  // namespace shardstream::io
