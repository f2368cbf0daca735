#include "io/source/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/source/ladder.hpp"

namespace shardstream::io {
namespace {

using Kind = SelectionItem::Kind;

constexpr auto how_to_write =
    "write an index (5, -1), a range (0:90, ::2, :), '...', or coordinates (NAME=0:90)";

/// One for each dimension, and an ellipsis.
constexpr std::size_t max_items = max_dimensions + 1;

/// "character 7 of the selection [0:90, x]"; characters are counted from 1, with the bracket.
std::string place(std::string_view text, std::size_t position) {
  return fmt::format("character {} of the selection {}", position + 2,
                     excerpt(fmt::format("[{}]", text)));
}

/// A piece of a text, without the white space round it, and its position.
struct TextPiece {
  std::string_view text;
  std::size_t position;
};

std::vector<TextPiece> pieces_of(const TextPiece& whole, char separator) {
  std::vector<TextPiece> pieces;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = std::min(whole.text.find(separator, begin), whole.text.size());
    const std::string_view raw = whole.text.substr(begin, end - begin);
    const std::string_view text = trim(raw);
    const std::size_t blanks =
        text.empty() ? raw.size() : static_cast<std::size_t>(text.data() - raw.data());
    pieces.push_back({text, whole.position + begin + blanks});
    if (end == whole.text.size()) return pieces;
    begin = end + 1;
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  SelectionText parse() const {
    SelectionText selection{std::string(text_), {}};
    for (const TextPiece& piece : pieces_of({text_, 0}, ',')) {
      selection.items.push_back(item(piece));
      check_together(selection.items);
    }
    return selection;
  }

 private:
  [[noreturn]] void fail(std::size_t position, const std::string& problem) const {
    throw UsageError(fmt::format("{} ({})", problem, place(text_, position)));
  }

  SelectionItem item(const TextPiece& piece) const {
    SelectionItem item{.position = piece.position};
    if (piece.text.empty()) {
      fail(piece.position, fmt::format("an item is empty: {}", how_to_write));
    }
    if (piece.text == "...") {
      item.kind = Kind::ellipsis;
      return item;
    }
    TextPiece rest = piece;
    if (const auto sign = piece.text.find('='); sign != std::string_view::npos) {
      item.name = trim(piece.text.substr(0, sign));
      if (item.name.empty()) {
        fail(piece.position, "there is no name of a dimension before '=': write NAME=VALUE");
      }
      rest = {piece.text.substr(sign + 1), piece.position + sign + 1};
    }
    read_parts(pieces_of(rest, ':'), item);
    return item;
  }

  void read_parts(const std::vector<TextPiece>& parts, SelectionItem& item) const {
    if (parts.size() > 3) {
      fail(parts[3].position, "a range has at most three parts: write start:stop:step");
    }
    const auto bound = [&](const TextPiece& part) {
      return item.name.empty() ? index(part) : coordinate(part);
    };
    if (parts.size() == 1) item.kind = Kind::single;
    if (parts.size() == 1 || !parts[0].text.empty()) item.start = bound(parts[0]);
    if (parts.size() > 1 && !parts[1].text.empty()) item.stop = bound(parts[1]);
    if (parts.size() > 2 && !parts[2].text.empty()) item.step = step(parts[2]);
  }

  Bound index(const TextPiece& part) const {
    Bound bound{.position = part.position, .text = std::string(part.text)};
    bound.is_negative = part.text.starts_with('-');
    const std::string_view digits = part.text.substr(bound.is_negative ? 1 : 0);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), bound.magnitude);
    if (error == std::errc::result_out_of_range) {
      fail(part.position, fmt::format("the position {} is too large", excerpt(part.text)));
    }
    if (error != std::errc() || end != digits.data() + digits.size()) {
      fail(part.position,
           fmt::format("{} is not a whole number: {}", excerpt(part.text), how_to_write));
    }
    return bound;
  }

  Bound coordinate(const TextPiece& part) const {
    Bound bound{.position = part.position, .text = std::string(part.text)};
    const char* const last = part.text.data() + part.text.size();
    const auto [end, error] = std::from_chars(part.text.data(), last, bound.coordinate);
    if (error == std::errc::result_out_of_range) {
      fail(part.position,
           fmt::format("the coordinate {} is beyond the numbers of f64", excerpt(part.text)));
    }
    if (error != std::errc() || end != last || !std::isfinite(bound.coordinate)) {
      fail(part.position,
           fmt::format("{} is not a number: write NAME=VALUE or NAME=FROM:TO with coordinates as "
                       "they are in the file, such as lat=-30:30",
                       excerpt(part.text)));
    }
    return bound;
  }

  std::uint64_t step(const TextPiece& part) const {
    const Bound bound = index(part);
    if (!bound.is_negative && bound.magnitude > 0) return bound.magnitude;
    fail(part.position, fmt::format("the step {} is not positive: choose 1 or more", bound.text));
  }

  /// `lat=-20,20` probably means a range.
  [[noreturn]] void fail_as_mixed(const SelectionItem& before, const SelectionItem& last) const {
    const bool is_pair = !before.name.empty() && last.name.empty() && before.kind == Kind::single &&
                         last.kind == Kind::single;
    fail(last.position,
         "items by position and by coordinate cannot be mixed: write all of them as NAME=VALUE, "
         "or none" +
             (is_pair ? fmt::format("; for a range, write {}={}:{}", printable(before.name),
                                    before.start->text, last.start->text)
                      : ""));
  }

  /// Checks the last item against those before it.
  void check_together(const std::vector<SelectionItem>& items) const {
    const SelectionItem& last = items.back();
    if (items.size() > max_items) {
      fail(last.position,
           fmt::format("a selection has at most {} items: leave some out", max_items));
    }
    for (const auto& item : std::span(items).first(items.size() - 1)) {
      if (item.name.empty() != last.name.empty()) {
        fail_as_mixed(items[items.size() - 2], last);
      }
      if (!last.name.empty() && item.name == last.name) {
        fail(last.position,
             fmt::format("{} is selected twice: write one range", excerpt(last.name)));
      }
      if (item.kind == Kind::ellipsis && last.kind == Kind::ellipsis) {
        fail(last.position, "'...' may occur only once: write ':' for one whole dimension");
      }
    }
  }

  std::string_view text_;
};

/// Resolves the items of one text, one dimension after the other.
class Resolver {
 public:
  Resolver(const SelectionText& text, std::span<const Dimension> dimensions,
           const CoordinatesOf& coordinates, const std::string& name)
      : text_(text), dimensions_(dimensions), coordinates_(coordinates), name_(name) {}

  /// Adds the ranges that reach beyond the coordinates to `beyond`.
  Selection resolve(std::vector<std::string>& beyond) const {
    Selection selection;
    for (const Dimension& each : dimensions_) selection.push_back({.count = each.extent});
    const auto& items = text_.items;
    if (items.empty()) return selection;
    if (!items.front().name.empty()) {
      for (const auto& item : items) {
        const std::size_t dimension = dimension_of(item);
        selection[dimension] = by_coordinate(item, dimension, beyond);
      }
      return selection;
    }
    check_count();
    std::size_t dimension = 0;
    for (const auto& item : items) {
      if (item.kind == Kind::ellipsis) {
        dimension += dimensions_.size() - (items.size() - 1);
      } else {
        selection[dimension] = by_position(item, dimension);
        ++dimension;
      }
    }
    return selection;
  }

 private:
  [[noreturn]] void fail(std::size_t position, const std::string& problem) const {
    throw UsageError(fmt::format("{} ({})", problem, place(text_.text, position)));
  }

  /// "dimension 2 of 3 of x.h5:/sst (lat, 180 elements)"
  std::string words(std::size_t dimension) const {
    const Dimension& each = dimensions_[dimension];
    return fmt::format("dimension {} of {} of {} ({}{})", dimension + 1, dimensions_.size(), name_,
                       each.name.empty() ? "" : printable(each.name) + ", ",
                       counted(each.extent, "element"));
  }

  std::string shape() const { return dimensions_.empty() ? "a scalar" : io::text_of(dimensions_); }

  void check_count() const {
    std::size_t count = 0;
    for (const auto& item : text_.items) {
      count += item.kind == Kind::ellipsis ? 0 : 1;
      if (count <= dimensions_.size()) continue;
      fail(item.position, fmt::format("{} has {} ({}), but the selection has more items: leave "
                                      "some out",
                                      name_, counted(dimensions_.size(), "dimension"), shape()));
    }
  }

  [[noreturn]] void fail_beyond(const Bound& bound, std::size_t dimension, bool is_index) const {
    const std::uint64_t extent = dimensions_[dimension].extent;
    fail(bound.position,
         fmt::format("{} is beyond {}: choose {} from 0 to {}", bound.text, words(dimension),
                     is_index ? "an index" : "positions",
                     is_index ? extent - std::min<std::uint64_t>(extent, 1) : extent));
  }

  /// A position that may be equal to the extent only as the end of a range.
  std::uint64_t position(const Bound& bound, std::size_t dimension, bool is_index = false) const {
    const std::uint64_t extent = dimensions_[dimension].extent;
    if (bound.magnitude > extent) fail_beyond(bound, dimension, is_index);
    return bound.is_negative && bound.magnitude > 0 ? extent - bound.magnitude : bound.magnitude;
  }

  Axis by_position(const SelectionItem& item, std::size_t dimension) const {
    const std::uint64_t extent = dimensions_[dimension].extent;
    const bool is_index = item.kind == Kind::single;
    const std::uint64_t first = item.start ? position(*item.start, dimension, is_index) : 0;
    if (is_index) {
      if (first < extent) return {.first = first, .count = 1, .is_index = true};
      fail_beyond(*item.start, dimension, is_index);
    }
    const std::uint64_t stop = item.stop ? position(*item.stop, dimension) : extent;
    if (first >= stop) {
      fail(item.position, fmt::format("the range from {} to {} (excluded) selects nothing from {}: "
                                      "choose a larger end",
                                      first, stop, words(dimension)));
    }
    return axis(first, stop, item.step);
  }

  static Axis axis(std::uint64_t first, std::uint64_t stop, std::uint64_t step) {
    const std::uint64_t count = (stop - first - 1) / step + 1;
    return {.first = first, .step = count == 1 ? 1 : step, .count = count};
  }

  std::size_t dimension_of(const SelectionItem& item) const {
    std::vector<std::string_view> names;
    std::optional<std::size_t> found;
    for (std::size_t d = 0; d < dimensions_.size(); ++d) {
      const std::string& name = dimensions_[d].name;
      if (!name.empty()) names.push_back(name);
      if (name != item.name) continue;
      if (found) {
        fail(item.position, fmt::format("{} has several dimensions {} ({}): select by position",
                                        name_, excerpt(name), shape()));
      }
      found = d;
    }
    if (found) return *found;
    if (names.empty()) {
      fail(item.position, fmt::format("the dimensions of {} have no names ({}): select by position",
                                      name_, shape()));
    }
    const std::string_view meant = nearest(item.name, names);
    fail(item.position, fmt::format("{} has no dimension {}{}: its dimensions are {}", name_,
                                    excerpt(item.name), did_you_mean(printable(meant)), shape()));
  }

  Axis by_coordinate(const SelectionItem& item, std::size_t dimension,
                     std::vector<std::string>& beyond) const {
    const auto coordinates =
        dimensions_[dimension].has_coordinates ? coordinates_(dimension) : std::nullopt;
    if (!coordinates) {
      fail(item.position, fmt::format("{} has no coordinates that are numbers: select by position",
                                      words(dimension)));
    }
    expect(coordinates->values.size() == dimensions_[dimension].extent,
           "a dimension has one coordinate per element");
    const Ladder ladder(*coordinates);
    if (const auto disorder = ladder.first_disorder()) {
      fail(item.position,
           fmt::format("the coordinates of {} neither increase nor decrease everywhere (coordinate "
                       "{} is {}{}{}): select by position",
                       words(dimension), *disorder, ladder.text_of(*disorder),
                       *disorder == 0 ? "" : " after " + ladder.text_of(*disorder - 1),
                       are_rounded(*coordinates) ? "; integers beyond 2^53 are rounded" : ""));
    }
    if (item.kind == Kind::single) return single(item, ladder, dimension);
    const Axis chosen = interval(item, ladder, dimension);
    if (reaches_beyond(item, ladder)) {
      beyond.push_back(fmt::format("{}={}:{} ({})", printable(item.name), text_of(item.start),
                                   text_of(item.stop), ladder.extremes()));
    }
    return chosen;
  }

  static std::string text_of(const std::optional<Bound>& bound) {
    return bound ? printable(bound->text) : "";
  }

  static bool reaches_beyond(const SelectionItem& item, const Ladder& ladder) {
    const auto is_beyond = [&](const std::optional<Bound>& bound) {
      return bound && ladder.is_beyond(bound->coordinate);
    };
    return is_beyond(item.start) || is_beyond(item.stop);
  }

  Axis single(const SelectionItem& item, const Ladder& ladder, std::size_t dimension) const {
    const double wanted = item.start->coordinate;
    const auto [first, end] = ladder.between(wanted, wanted);
    if (first < end) return {.first = first, .count = 1, .is_index = true};
    const std::string turned = ladder.is_circle() ? ladder.turned(wanted) : "";
    fail(item.start->position,
         fmt::format("no coordinate of {} is {} (nearest: {}): choose {}", words(dimension),
                     item.start->text, ladder.neighbours(wanted),
                     turned.empty() ? "one of these, or a range"
                                    : turned + ", which is the same longitude"));
  }

  Axis interval(const SelectionItem& item, const Ladder& ladder, std::size_t dimension) const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    double low = item.start ? item.start->coordinate : -infinity;
    double high = item.stop ? item.stop->coordinate : infinity;
    if (low > high && ladder.descends()) std::swap(low, high);
    if (ladder.is_circle()) expect_one_range(item, ladder, {low, high}, dimension);
    if (low > high && !ladder.is_circle()) {
      fail(item.start->position,
           fmt::format("the range from {} to {} selects nothing, since the coordinates of {} "
                       "increase: write the smaller end first",
                       item.start->text, item.stop->text, words(dimension)));
    }
    const auto [first, end] = ladder.between(low, high);
    if (first < end) return axis(first, end, item.step);
    fail(item.position,
         fmt::format("no coordinate of {} is in this range (nearest: {}): choose a larger range",
                     words(dimension), ladder.neighbours(item.start ? low : high)));
  }

  /// Throws UsageError, with the ranges to select instead, if a range of longitudes means elements
  /// that lie in it only after a turn of 360 degrees.
  void expect_one_range(const SelectionItem& item, const Ladder& ladder, const Interval& range,
                        std::size_t dimension) const {
    const std::vector<Interval> parts = ladder.parts_around(range);
    if (parts.empty()) return;
    std::vector<std::string> texts;
    for (const Interval& part : parts) {
      texts.push_back(fmt::format("{}={}", printable(item.name), ladder.text_of(part)));
    }
    fail(item.position,
         fmt::format("the range {}:{} reaches beyond the longitudes of {} ({}) and means elements "
                     "on their other side: select {}",
                     text_of(item.start), text_of(item.stop), words(dimension), ladder.extremes(),
                     parts.size() == 1 ? texts[0]
                                       : fmt::format("{} and {} in two runs", texts[0], texts[1])));
  }

  const SelectionText& text_;
  std::span<const Dimension> dimensions_;
  const CoordinatesOf& coordinates_;
  const std::string& name_;
};

}  // namespace

SelectionText SelectionText::parse(std::string_view text) {
  return Parser(text).parse();
}

Selection resolve(const SelectionText& text, std::span<const Dimension> dimensions,
                  const CoordinatesOf& coordinates, const std::string& name,
                  std::vector<std::string>* beyond) {
  std::vector<std::string> unused;
  return Resolver(text, dimensions, coordinates, name)
      .resolve(beyond != nullptr ? *beyond : unused);
}

bool is_whole(const Axis& axis, std::uint64_t extent) {
  return axis == Axis{.count = extent};
}

std::string text_of(const Selection& selection, std::span<const std::uint64_t> extents) {
  expect(selection.size() == extents.size(), "a selection has one axis per dimension");
  std::vector<std::string> items;
  for (std::size_t d = 0; d < selection.size(); ++d) {
    const auto& [first, step, count, is_index] = selection[d];
    const std::uint64_t stop = first + (count - 1) * step + 1;
    if (is_index) {
      items.push_back(fmt::format("{}", first));
    } else if (is_whole(selection[d], extents[d])) {
      items.emplace_back(":");
    } else if (step == 1) {
      items.push_back(fmt::format("{}:{}", first, stop));
    } else {
      items.push_back(fmt::format("{}:{}:{}", first, stop, step));
    }
  }
  return fmt::format("[{}]", join(items, ", "));
}

}  // namespace shardstream::io
