#include "experiments/axes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "experiments/bench.hpp"

namespace shardstream::experiments {
namespace {

using Numbers = std::vector<std::uint64_t>;

bool has_words(const Axis& axis) {
  return axis.values[0] < '0' || axis.values[0] > '9';
}

bool has_sizes(const Axis& axis) {
  return axis.unit == "B";
}

std::uint64_t number(const Axis& axis, std::string_view text) {
  return has_sizes(axis) ? parse_size(text) : parse_count(text);
}

/// The numbers of "first..last", "first..last+step" or "first..last*factor". `largest` replaces a
/// `last` that is missing.
Numbers numbers_of_range(const Axis& axis, std::string_view text,
                         std::optional<std::uint64_t> largest) {
  constexpr std::uint64_t max = 10'000;
  const auto dots = text.find("..");
  const std::string_view rest = text.substr(dots + 2);
  const auto sign = rest.find_first_of("+*");
  const std::string_view end = rest.substr(0, sign);
  if (end.empty() && !largest) {
    throw UsageError(fmt::format("the range {} has no end", excerpt(text)));
  }
  const std::uint64_t first = number(axis, text.substr(0, dots));
  const std::uint64_t last = end.empty() ? *largest : number(axis, end);
  const std::uint64_t by = sign == rest.npos ? 1 : number(axis, rest.substr(sign + 1));
  const bool multiplies = sign != rest.npos && rest[sign] == '*';
  if (by < (multiplies ? 2 : 1) || (multiplies && first == 0)) {
    throw UsageError(fmt::format("the numbers of {} do not grow", excerpt(text)));
  }
  if (!end.empty() && last < first) {
    throw UsageError(fmt::format("the range {} ends before it begins", excerpt(text)));
  }
  if (multiplies) {
    if (last > std::numeric_limits<std::uint64_t>::max() / by) {
      throw UsageError(fmt::format("the numbers of {} are too large", excerpt(text)));
    }
    return sizes_up_to(first, last, by);
  }
  if (last > first && (last - first) / by >= max) {
    throw UsageError(fmt::format("{} has more than {} numbers", excerpt(text), max));
  }
  Numbers numbers;
  for (std::uint64_t x = first; x < last; x += by) numbers.push_back(x);
  numbers.push_back(last);
  return numbers;
}

/// The numbers of a list, each once and in rising order.
Numbers numbers_of(const Axis& axis, std::string_view list, std::optional<std::uint64_t> largest) {
  Numbers all;
  for (const std::string_view item : split(list, ',')) {
    const Numbers some = item.find("..") == item.npos ? Numbers{number(axis, item)}
                                                      : numbers_of_range(axis, item, largest);
    all.insert(all.end(), some.begin(), some.end());
  }
  std::ranges::sort(all);
  const auto rest = std::ranges::unique(all);
  all.erase(rest.begin(), rest.end());
  return all;
}

/// Throws UsageError if the axis does not admit `x`.
void expect_number(const Axis& axis, std::uint64_t x) {
  bool is_possible = false;
  if (axis.range.empty()) {
    const Numbers known = numbers_of(axis, axis.values, {});
    is_possible = std::ranges::binary_search(known, x);
  } else {
    const auto dots = axis.range.find("..");
    const std::string_view last = axis.range.substr(dots + 2);
    is_possible =
        x >= number(axis, axis.range.substr(0, dots)) && (last.empty() || x <= number(axis, last));
  }
  if (!is_possible) throw UsageError(fmt::format("it does not have {}", x));
}

/// Words may have commas: a list of several of these is separated as Axis::values is.
std::vector<AxisValue> chosen_words(const Axis& axis, std::string_view list) {
  const std::vector<std::string_view> words = split(axis.values, '|');
  const bool is_word = std::ranges::find(words, list) != words.end();
  const char separator = is_word || list.find('|') != list.npos ? '|' : ',';
  const std::vector<std::string_view> chosen = split(list, separator);
  for (const std::string_view word : chosen) {
    if (std::ranges::find(words, word) != words.end()) continue;
    throw UsageError(
        fmt::format("it does not have {}{}", excerpt(word), did_you_mean(nearest(word, words))));
  }
  std::vector<AxisValue> values;
  for (std::size_t place = 0; place < words.size(); ++place) {
    if (std::ranges::find(chosen, words[place]) == chosen.end()) continue;
    values.push_back({&axis, place, words[place]});
  }
  return values;
}

std::vector<AxisValue> chosen_numbers(const Axis& axis, std::string_view list, bool by_user,
                                      std::optional<std::uint64_t> largest) {
  std::vector<AxisValue> values;
  for (const std::uint64_t x : numbers_of(axis, list, largest)) {
    if (by_user) expect_number(axis, x);
    const bool fits = !largest || x <= *largest;
    if (by_user && !fits) {
      throw UsageError(
          fmt::format("{} is more than {}, which is {} here", x, axis.most,
                      has_sizes(axis) ? format_size(*largest) : std::to_string(*largest)));
    }
    if (fits) values.push_back({&axis, x});
  }
  return values;
}

Cell cell_of(const AxisValue& value) {
  if (has_words(*value.axis)) return std::string(value.word);
  return static_cast<std::int64_t>(value.number);
}

const Axis* find_axis(const Experiment& experiment, std::string_view name) {
  const auto found = std::ranges::find(experiment.axes, name, &Axis::name);
  return found == experiment.axes.end() ? nullptr : &*found;
}

bool concerns(const AxisChoice& choice, const Experiment& experiment) {
  return (choice.experiment.empty() || choice.experiment == experiment.name) &&
         find_axis(experiment, choice.axis) != nullptr;
}

[[noreturn]] void fail_as_unknown(const AxisChoice& choice,
                                  std::span<const Experiment* const> selected) {
  std::vector<std::string_view> names;
  std::vector<std::string> lists;
  for (const Experiment* each : selected) {
    if (each->axes.empty()) continue;
    std::ranges::transform(each->axes, std::back_inserter(names), &Axis::name);
    lists.push_back(
        fmt::format("{} has {}", each->name, join(each->axes, ", ", std::mem_fn(&Axis::name))));
  }
  const std::string given =
      choice.experiment.empty() ? choice.axis : choice.experiment + '.' + choice.axis;
  throw UsageError(fmt::format(
      "--axis: no chosen experiment has the axis {}{}: {}", excerpt(given),
      did_you_mean(nearest(choice.axis, names)),
      lists.empty() ? "leave it out, since they have none" : join_first(lists, 5, "; ")));
}

}  // namespace

AxisChoices axis_choices(std::string_view text) {
  AxisChoices choices;
  for (const std::string_view part : split(text, ';')) {
    const auto equals = part.find('=');
    if (equals == part.npos || equals == 0 || equals + 1 == part.size()) {
      throw UsageError(fmt::format(
          "--axis {}: write AXIS=VALUE,... or EXPERIMENT.AXIS=VALUE,..., as in --axis stride=2,8",
          excerpt(part)));
    }
    const std::string_view name = trim(part.substr(0, equals));
    const auto dot = name.find('.');
    choices.push_back({std::string(dot == name.npos ? "" : name.substr(0, dot)),
                       std::string(dot == name.npos ? name : name.substr(dot + 1)),
                       std::string(trim(part.substr(equals + 1)))});
  }
  return choices;
}

void check_choices(const AxisChoices& choices, std::span<const Experiment* const> selected,
                   const Options& options) {
  for (const AxisChoice& choice : choices) {
    const auto has_axis = [&](const Experiment* each) { return concerns(choice, *each); };
    if (std::ranges::none_of(selected, has_axis)) fail_as_unknown(choice, selected);
    for (const Experiment* each : selected) {
      if (has_axis(each)) static_cast<void>(Axes(*each, {choice}, false).points(options));
    }
  }
}

const AxisValue& Point::value_of(std::string_view axis) const {
  const auto found =
      std::ranges::find(values_, axis, [](const AxisValue& value) { return value.axis->name; });
  expect(found != values_.end(), "an experiment asks only for axes of its row");
  return *found;
}

std::uint64_t Point::operator[](std::string_view axis) const {
  return value_of(axis).number;
}

Cell Point::cell(std::string_view axis) const {
  return cell_of(value_of(axis));
}

std::vector<Cell> Point::cells(std::vector<Cell> others) const {
  std::vector<Cell> cells;
  std::ranges::transform(values_, std::back_inserter(cells), cell_of);
  std::ranges::move(others, std::back_inserter(cells));
  return cells;
}

Axes::Axes(const Experiment& experiment, const AxisChoices& choices, bool quick) {
  for (const Axis& axis : experiment.axes) {
    Selected selected{&axis, std::string(quick && !axis.quick.empty() ? axis.quick : axis.values),
                      false};
    for (const AxisChoice& choice : choices) {
      if (!concerns(choice, experiment) || choice.axis != axis.name) continue;
      selected = {&axis, choice.values, true};
    }
    selected_.push_back(std::move(selected));
  }
}

bool Axes::are_chosen() const {
  return std::ranges::any_of(selected_, &Selected::is_chosen);
}

std::vector<Column> Axes::columns(std::vector<Column> others) const {
  std::vector<Column> columns;
  for (const auto& [axis, values, is_chosen] : selected_) {
    columns.push_back({std::string(axis->name),
                       has_words(*axis) ? ColumnType::text : ColumnType::integer,
                       std::string(axis->unit)});
  }
  std::ranges::move(others, std::back_inserter(columns));
  return columns;
}

std::vector<Point> Axes::points(const Options& options, const Largest& largest) const {
  std::vector<std::vector<AxisValue>> combined = {{}};
  for (const auto& [axis, text, is_chosen] : selected_) {
    std::optional<std::uint64_t> most;
    if (!axis->most.empty()) {
      most = has_sizes(*axis) ? options.bytes(axis->most) : options.count(axis->most);
    }
    if (const auto found = largest.find(axis->name); found != largest.end()) most = found->second;
    std::vector<AxisValue> values;
    try {
      values = has_words(*axis) ? chosen_words(*axis, text)
                                : chosen_numbers(*axis, text, is_chosen, most);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("--axis {}={}: {}: the axis has {}", axis->name, printable(text),
                                   error.what(), words_of(*axis)));
    }
    std::vector<std::vector<AxisValue>> longer;
    for (const std::vector<AxisValue>& before : combined) {
      for (const AxisValue& value : values) {
        longer.push_back(before);
        longer.back().push_back(value);
      }
    }
    combined = std::move(longer);
  }
  std::vector<Point> points;
  for (std::vector<AxisValue>& values : combined) points.emplace_back(std::move(values));
  return points;
}

std::string words_of(const Axis& axis) {
  const std::string_view separator = has_words(axis) ? " | " : ", ";
  std::string text = join(split(axis.values, separator == ", " ? ',' : '|'), separator);
  if (!axis.quick.empty()) {
    text += fmt::format(" (with --quick {})",
                        join(split(axis.quick, separator == ", " ? ',' : '|'), separator));
  }
  if (!axis.range.empty()) text += fmt::format(", or other numbers in {}", axis.range);
  if (!axis.most.empty()) text += fmt::format(", at most {}", axis.most);
  return text;
}

std::string help(std::span<const Axis> axes) {
  if (axes.empty()) return {};
  std::string text = '\n' + wrapped("",
                                    "Axes, whose values --axis NAME=VALUE,... chooses. 1..9+2 adds "
                                    "2, 1..8*2 multiplies by 2, and a range without its second "
                                    "number, such as 1..*2, ends at the largest possible one.",
                                    0);
  for (const Axis& axis : axes) {
    const std::string unit = axis.unit.empty() ? "" : fmt::format(" [{}]", axis.unit);
    text += wrapped(fmt::format("  {:<18}", fmt::format("{}{}", axis.name, unit)),
                    fmt::format("{} Values: {}.", axis.sentence, words_of(axis)), 20);
  }
  return text;
}

}  // namespace shardstream::experiments
