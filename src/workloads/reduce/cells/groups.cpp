#include "workloads/reduce/cells/groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/description/dataset_name.hpp"
#include "io/source/dates.hpp"
#include "io/source/dimension_match.hpp"
#include "io/source/matrix.hpp"
#include "io/source/strided.hpp"
#include "io/source/texts.hpp"

namespace shardstream::workloads {
namespace {

constexpr std::string_view groups_key = "reduce.by";
constexpr std::int32_t no_group = -1;

// ---------------------------------------------------------------- by dates

/// The parts of a date that groups are made of.
constexpr std::string_view parts[] = {"month", "season", "year"};

constexpr int months_per_season = 3, seasons_per_year = 4;

/// The season of a month: December, January and February are season 0.
constexpr std::int32_t season_of(int month) {
  return month % 12 / months_per_season;
}

void group_by_month(std::span<const Date> dates, CellGroups& groups) {
  groups.labels = std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  for (const Date& date : dates) groups.group_of.push_back(date.month - 1);
}

void group_by_season(std::span<const Date> dates, CellGroups& groups) {
  std::vector<std::string> seasons = {"DJF", "MAM", "JJA", "SON"};
  static_assert(season_of(12) == 0 && season_of(11) == seasons_per_year - 1);
  groups.labels = std::move(seasons);
  for (const Date& date : dates) groups.group_of.push_back(season_of(date.month));
}

/// Throws UsageError if there are very many years.
void group_by_year(std::span<const Date> dates, CellGroups& groups) {
  constexpr std::int64_t max_years = 1'000'000;
  const auto [first, last] = std::ranges::minmax(dates, {}, &Date::year);
  const std::int64_t years = last.year - first.year + 1;
  if (years > max_years) {
    throw UsageError(
        fmt::format("{}: the years {} to {} are more than {} groups: check the "
                    "coordinates, or select some of them",
                    groups_key, first.year, last.year, max_years));
  }
  std::vector<std::int64_t> labels;
  for (std::int64_t year = first.year; year <= last.year; ++year) labels.push_back(year);
  for (const Date& date : dates) {
    groups.group_of.push_back(static_cast<std::int32_t>(date.year - first.year));
  }
  groups.labels = std::move(labels);
}

/// DIMENSION:month, DIMENSION:season or DIMENSION:year.
struct DatePart {
  std::string dimension, part;
};

/// Nothing if `text` names a file, or has no colon.
std::optional<DatePart> date_part(const std::string& text) {
  const auto colon = text.rfind(':');
  if (!io::dataset_name(text).path.empty() || colon == std::string::npos) return std::nullopt;
  if (std::filesystem::exists(text)) return std::nullopt;
  return DatePart{text.substr(0, colon), text.substr(colon + 1)};
}

void expect_reduced(const io::Source& data, std::size_t dimension,
                    std::span<const std::size_t> reduced) {
  if (std::ranges::find(reduced, dimension) != reduced.end()) return;
  throw UsageError(fmt::format(
      "{}: the dimension '{}' of {} stays in the result, so it cannot be divided into groups: add "
      "it to reduce.over",
      groups_key, printable(io::name_of_dimension(data, dimension)), data.name()));
}

CellGroups group_by_dates(const DatePart& by, const io::Source& data,
                          std::span<const std::size_t> reduced) {
  if (std::ranges::find(parts, by.part) == std::end(parts)) {
    throw UsageError(fmt::format(
        "{}: {} is no part of a date: choose {} (DIMENSION:month), or name labels, FILE:/PATH",
        groups_key, excerpt(by.part), join(parts, ", ")));
  }
  CellGroups groups{};
  io::Dates dates;
  try {
    groups.dimension = io::find_dimension(data, by.dimension);
    expect_reduced(data, groups.dimension, reduced);
    dates = io::dates_of(data, groups.dimension);
  } catch (const UsageError& error) {
    const std::string message = error.what();
    if (message.starts_with(groups_key)) throw;
    throw UsageError(fmt::format("{}: {}", groups_key, message), error.where());
  }
  groups.name = by.part;
  groups.by = by.dimension + ":" + by.part;
  if (by.part == "month") group_by_month(dates.values, groups);
  if (by.part == "season") group_by_season(dates.values, groups);
  if (by.part == "year") group_by_year(dates.values, groups);
  groups.bounds = std::move(dates.bounds);
  for (const std::string& warning : dates.warnings) {
    groups.origin.warnings.push_back(fmt::format("{}: {}", groups_key, warning));
  }
  groups.attributes.emplace_back(
      "long_name", fmt::format("{} of {}", by.part, io::name_of_dimension(data, groups.dimension)));
  return groups;
}

// ---------------------------------------------------------------- by labels

/// Labels, and the dimension that they are along.
template <class Label>
struct LabelList {
  std::vector<Label> values;
  std::vector<bool> is_missing;
};

/// The labels of a source of numbers. Throws UsageError for a number that is not whole.
template <class T>
LabelList<std::int64_t> read_labels(const io::Source& source) {
  const std::uint64_t count = source.count();
  io::Extents extent;
  for (const io::SourceDimension& each : source.dimensions()) extent.push_back(each.axis.count);
  std::vector<T> numbers(count);
  source.read_block(io::Extents(extent.size()), extent, io::dense_pitches(extent, sizeof(T)),
                    reinterpret_cast<std::byte*>(numbers.data()));
  LabelList<std::int64_t> labels{std::vector<std::int64_t>(count), std::vector<bool>(count)};
  for (std::uint64_t i = 0; i < count; ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      constexpr double max = 0x1p53;  // beyond, not every whole number is a double
      const double number = numbers[i];
      labels.is_missing[i] = std::isnan(number);
      if (labels.is_missing[i]) continue;
      if (number != std::floor(number) || std::abs(number) >= max) {
        throw UsageError(
            fmt::format("{}: element {} of {} is {}: labels are texts, or whole numbers below 2^53",
                        groups_key, i, source.name(), number));
      }
    }
    labels.values[i] = static_cast<std::int64_t>(numbers[i]);
  }
  return labels;
}

LabelList<std::int64_t> read_labels(const io::Source& source) {
  return with_element_type(
      source.type(), [&](auto type) { return read_labels<typename decltype(type)::type>(source); });
}

LabelList<std::string> labels_of(std::vector<std::string> texts) {
  LabelList<std::string> labels{std::move(texts), {}};
  for (const std::string& text : labels.values) labels.is_missing.push_back(text.empty());
  return labels;
}

/// Sets the groups of the used indices. `pairs` are their labels.
template <class Label>
void group_by(const LabelList<Label>& labels, const io::DimensionPairs& pairs,
              const std::string& name, CellGroups& groups) {
  std::vector<Label> distinct;
  for (std::uint64_t i = 0; i < pairs.count(); ++i) {
    if (labels.is_missing[pairs[i]]) continue;
    const Label& label = labels.values[pairs[i]];
    if (distinct.empty() || distinct.back() != label) distinct.push_back(label);
  }
  std::ranges::sort(distinct);
  const auto repeated = std::ranges::unique(distinct);
  distinct.erase(repeated.begin(), repeated.end());
  if (distinct.empty()) {
    throw UsageError(fmt::format("{}: all labels of {} are missing or empty: name other labels",
                                 groups_key, name));
  }
  groups.group_of.reserve(pairs.count());
  for (std::uint64_t i = 0; i < pairs.count(); ++i) {
    const auto found = std::ranges::lower_bound(distinct, labels.values[pairs[i]]);
    groups.group_of.push_back(labels.is_missing[pairs[i]]
                                  ? no_group
                                  : static_cast<std::int32_t>(found - distinct.begin()));
  }
  groups.labels = std::move(distinct);
}

/// The one of `reduced` that the labels are along. Throws UsageError if there is none, or several.
std::size_t dimension_of_labels(const io::NamedLength& labels, const std::string& name,
                                const io::Source& data, std::span<const std::size_t> reduced) {
  const std::vector<io::NamedLength> all = io::lengths_of(data, reduced);
  auto matches = io::match_dimensions({&labels, 1}, all, io::MatchedLength::used_or_all);
  const bool has_named = std::ranges::any_of(
      matches, [](const io::DimensionMatch& each) { return each.equal_names > 0; });
  std::erase_if(matches,
                [&](const io::DimensionMatch& each) { return has_named && each.equal_names == 0; });
  if (matches.size() == 1) return reduced[matches[0].places[0]];
  const std::string words =
      fmt::format("the labels {} ({})", name, io::text_of(std::span(&labels, 1)));
  const std::string dimensions = io::text_of(std::span(all));
  if (matches.empty()) {
    throw UsageError(fmt::format(
        "{}: {} fit none of the dimensions that are reduced ({}): name a label for each index of "
        "one of them",
        groups_key, words, dimensions));
  }
  throw UsageError(fmt::format(
      "{}: {} fit several dimensions that are reduced ({}): give the dimensions of both data sets "
      "the same names, by dimension scales or the attribute DIMENSION_LABELS",
      groups_key, words, dimensions));
}

/// The attributes of the labels' data set that its groups keep.
io::Attributes attributes_of_labels(const io::Source& source) {
  io::Attributes attributes;
  for (const char* const name : {"units", "long_name", "standard_name"}) {
    std::string text = io::attribute_of(source, name);
    if (!text.empty()) attributes.emplace_back(name, std::move(text));
  }
  return attributes;
}

CellGroups group_by_texts(io::Texts texts, const io::Source& data,
                          std::span<const std::size_t> reduced) {
  const io::NamedLength length{texts.dimension.name, texts.values.size(), texts.dimension.extent};
  CellGroups groups{};
  groups.dimension = dimension_of_labels(length, texts.name, data, reduced);
  groups.name = texts.path.substr(texts.path.rfind('/') + 1);
  groups.by = texts.name;
  groups.origin = std::move(texts.origin);
  const io::DimensionPairs pairs = io::pair_elements(groups_key, texts.name, texts.coordinates,
                                                     texts.values.size(), data, groups.dimension);
  groups.paired.add(data, groups.dimension, pairs.by());
  group_by(labels_of(std::move(texts.values)), pairs, texts.name, groups);
  return groups;
}

CellGroups group_by_numbers(const io::Source& source, const io::Source& data,
                            std::span<const std::size_t> reduced) {
  const std::vector<std::size_t> kept = io::kept_dimensions(source);
  if (kept.size() != 1) {
    throw UsageError(fmt::format("{}: the labels {} have {}: name labels with one dimension",
                                 groups_key, source.name(), counted(kept.size(), "dimension")));
  }
  if (source.count() > max_labels) {
    throw UsageError(
        fmt::format("{}: {} has {} elements, but at most {} labels are kept in memory: name fewer",
                    groups_key, source.name(), source.count(), max_labels));
  }
  CellGroups groups{};
  groups.dimension =
      dimension_of_labels(io::lengths_of(source, kept)[0], source.name(), data, reduced);
  const io::DimensionPairs pairs =
      io::pair_elements(groups_key, source, kept[0], data, groups.dimension);
  groups.paired.add(data, groups.dimension, pairs.by());
  groups.name = io::data_name(source);
  groups.by = source.name();
  groups.attributes = attributes_of_labels(source);
  groups.origin = source.origin();
  group_by(read_labels(source), pairs, source.name(), groups);
  return groups;
}

}  // namespace

std::size_t CellGroups::count() const {
  return std::visit([](const auto& all) { return all.size(); }, labels);
}

bool CellGroups::have_all() const {
  return std::ranges::count(group_of, -1) == 0;
}

std::string CellGroups::label(std::size_t group) const {
  return std::visit([&](const auto& all) { return fmt::format("{}", all.at(group)); }, labels);
}

io::ResultDimension CellGroups::result_dimension(std::set<std::string>& taken) const {
  io::ResultDimension made{io::netcdf_name(name, taken), count(), std::nullopt};
  io::Array array{made.name, made.name, ElementType::i64, {}, attributes};
  std::visit([&](const auto& all) { array.values = all; }, labels);
  made.coordinates = std::move(array);
  return made;
}

std::optional<CellGroups> open_groups(const Options& options, const io::Source& data,
                                      std::span<const std::size_t> reduced) {
  const std::string& text = options.text(groups_key);
  if (text.empty()) return std::nullopt;
  if (const auto by = date_part(text)) return group_by_dates(*by, data, reduced);
  if (!io::names_file(options, groups_key) || text.find('/') == std::string::npos) {
    throw UsageError(
        fmt::format("{} is {}, which names neither a part of a date nor a file: write "
                    "DIMENSION:month, DIMENSION:season, DIMENSION:year or FILE:/PATH",
                    groups_key, excerpt(text)));
  }
  if (auto texts = io::open_texts(options, groups_key, max_labels)) {
    return group_by_texts(std::move(*texts), data, reduced);
  }
  const auto source = io::open_source(
      options,
      {.key = groups_key, .shape = {}, .type = ElementType::i64, .seed = 0, .keeps_type = true});
  return group_by_numbers(*source, data, reduced);
}

}  // namespace shardstream::workloads
