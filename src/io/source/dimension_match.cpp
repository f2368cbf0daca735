#include "io/source/dimension_match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/hdf5/dimensions.hpp"

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

std::string units_of(const Labels& labels) {
  const auto found =
      std::ranges::find(labels.attributes, "units", &std::pair<std::string, std::string>::first);
  return found == labels.attributes.end() ? "" : found->second;
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

void expect_same_coordinates(std::string_view option, const std::string& name,
                             const std::optional<Labels>& own, const Source& data,
                             std::size_t dimension) {
  std::vector<std::string> warnings;  // coordinates that cannot be read cannot be compared
  const auto theirs = own ? coordinates_of(data, dimension, warnings) : std::nullopt;
  if (!theirs || units_of(*own) != units_of(*theirs)) return;
  const bool as_f32 = own->type == ElementType::f32 || theirs->type == ElementType::f32;
  const Axis& axis = data.dimensions()[dimension].axis;
  const bool has_all = own->values.size() != theirs->values.size();
  for (std::uint64_t i = 0; i < axis.count; ++i) {
    const double a = own->values.at(has_all ? axis[i] : i), b = theirs->values[i];
    if (are_same_coordinates(a, b, as_f32)) continue;
    throw UsageError(fmt::format(
        "{}: the coordinates of the dimension '{}' of {} differ from those of {}, at first {} from "
        "{}: select the same coordinates of both, in the same order",
        option, printable(own->name), name, data.name(), a, b));
  }
}

void expect_same_coordinates(std::string_view option, const Source& source, std::size_t own,
                             const Source& data, std::size_t dimension) {
  std::vector<std::string> warnings;
  expect_same_coordinates(option, source.name(), coordinates_of(source, own, warnings), data,
                          dimension);
}

}  // namespace shardstream::io
