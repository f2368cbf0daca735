#include "io/description/value_attributes.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <set>
#include <variant>

#include "core/text.hpp"

namespace shardstream::io {
namespace {

// ---------------------------------------------------------------- names

using Words = std::vector<std::string>;
using Some = std::set<std::string_view>;

bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}

/// The words of a name, in lower case and without digits: "scale" and "factor" for SCALE_FACTOR,
/// ScaleFactor and "scale factor".
Words split_name(std::string_view name) {
  Words words;
  bool is_inside = false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i], before = i > 0 ? name[i - 1] : '\0';
    const char after = i + 1 < name.size() ? name[i + 1] : '\0';
    if (!is_upper(c) && !is_lower(c)) {
      is_inside = false;
      continue;
    }
    const bool begins_word =
        is_upper(c) && (is_lower(before) || (is_upper(before) && is_lower(after)));
    if (!is_inside || begins_word) words.emplace_back();
    words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    is_inside = true;
  }
  return words;
}

bool has_any(const Words& words, const Some& some) {
  return std::ranges::any_of(words, [&](const std::string& word) { return some.contains(word); });
}

bool has_all(const Words& words, std::initializer_list<std::string_view> all) {
  return std::ranges::all_of(
      all, [&](std::string_view each) { return std::ranges::find(words, each) != words.end(); });
}

/// The last words of attributes that describe another attribute.
const Some descriptions = {"unit",   "units", "err",         "error",     "errors",
                           "name",   "names", "description", "comment",   "comments",
                           "note",   "notes", "type",        "dtype",     "uncertainty",
                           "method", "label", "class",       "reference", "version"};
/// Words of attributes that count values.
const Some counts = {"count", "counts",   "number", "num",   "percent", "percentage",
                     "pct",   "fraction", "ratio",  "total", "time",    "flag"};

const Some markers = {"fill",    "fillvalue",    "fillvalues",    "fillval",    "missing",
                      "missval", "missingvalue", "missingvalues", "nodata",     "missingval",
                      "undef",   "undefined",    "nodatavalue",   "novalue",    "undetect",
                      "blank",   "badvalue",     "nullvalue",     "undefvalue", "missingdata",
                      "invalid", "nodataval"};
const Some bounds = {"min",    "max",   "range", "minimum", "maximum", "limit",
                     "limits", "lower", "upper", "value",   "values"};
const Some glued_bounds = {"validmin", "validmax", "validrange"};

const Some factors = {"scale",  "scales", "scaling",    "scalefactor", "scalefac",
                      "slope",  "slopes", "gain",       "gains",       "scalingfactor",
                      "bscale", "tscal",  "conversion", "multiplier",  "scalefactors"};
const Some kinds_of_factor = {"calibration", "cal", "multiplication", "multiplicative", "packing"};
/// Words of scales that do not scale values: of a plot, a length, a dimension.
const Some other_scales = {
    "gray",  "grey",    "log",  "color",  "colour", "time",  "length", "dim",       "display",
    "plot",  "axis",    "font", "line",   "map",    "pixel", "plate",  "height",    "bar",
    "depth", "spatial", "grid", "system", "title",  "voxel", "screen", "dimension", "dimensions"};

const Some addends = {"offset",     "offsets",    "addoffset", "intercept",
                      "intercepts", "addoffsets", "bzero",     "bias"};
/// Words of offsets in a file, in time or in space.
const Some other_offsets = {
    "time",  "utc",    "timezone", "tz",       "zone",      "byte",     "bytes",     "bit",
    "file",  "row",    "col",      "column",   "line",      "pixel",    "x",         "y",
    "z",     "lat",    "lon",      "latitude", "start",     "phase",    "longitude", "clock",
    "gps",   "frame",  "sample",   "index",    "chunk",     "position", "spatial",   "data",
    "image", "origin", "tile",     "block",    "frequency", "axis",     "dim",       "dimension"};

// ---------------------------------------------------------------- values

/// The content of an attribute. Its numbers also count if they are the text of one.
struct Content {
  std::vector<double> numbers;
  std::optional<std::string> text;

  bool all(const auto& condition) const {
    return !numbers.empty() && std::ranges::all_of(numbers, condition);
  }
  /// Whether it is a text, and not the text of a number.
  bool is_words() const { return text && numbers.empty(); }
};

std::optional<double> parse(const std::string& text) {
  const std::string trimmed(trim(text));
  char* end = nullptr;
  const double number = std::strtod(trimmed.c_str(), &end);
  if (trimmed.empty() || *end != '\0') return std::nullopt;
  return number;
}

Content content_of(const AttributeContent& read) {
  Content content{.numbers = {}, .text = read.text};
  for (const Number& number : read.numbers) {
    content.numbers.push_back(std::visit([](auto n) { return static_cast<double>(n); }, number));
  }
  if (read.text) {
    if (const auto number = parse(*read.text)) content.numbers.push_back(*number);
  }
  return content;
}

/// Whether `_Unsigned` agrees with the type of the data set, and so changes nothing.
bool agrees_with_sign(const Content& content, Signedness stored) {
  if (stored == Signedness::others) return true;
  std::string text = content.text.value_or("");
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool is_unsigned = stored == Signedness::without_sign;
  const auto is = [&](double number) { return content.all([=](double n) { return n == number; }); };
  return is_unsigned ? text == "true" || is(1) : text == "false" || is(0);
}

/// Whether an attribute with this content certainly leaves the values as they are stored.
bool changes_nothing(ValueMeaning meaning, const Content& content, Signedness stored) {
  static const Some nothing = {"", "none", "None", "null", "n/a", "N/A", "NA"};
  switch (meaning) {
    case ValueMeaning::marker:
      return content.all([](double n) { return std::isnan(n); }) ||
             (content.is_words() && nothing.contains(trim(*content.text)));
    case ValueMeaning::limit:
      return false;
    case ValueMeaning::factor:  // a text that is no number describes something
      return content.all([](double n) { return n == 1; }) || content.is_words();
    case ValueMeaning::addend:
      return content.all([](double n) { return n == 0; }) || content.is_words();
    case ValueMeaning::signedness:
      return agrees_with_sign(content, stored);
    case ValueMeaning::no_values:
      return content.all([](double n) { return n == 0; });
  }
  return false;
}

}  // namespace

std::optional<ValueMeaning> value_meaning(std::string_view name) {
  const Words words = split_name(name);
  if (words.empty() || descriptions.contains(words.back())) return std::nullopt;
  if (words == Words{"matlab", "empty"}) return ValueMeaning::no_values;
  if (has_any(words, {"unsigned"})) return ValueMeaning::signedness;
  if (has_any(words, glued_bounds) || (has_any(words, {"valid"}) && has_any(words, bounds))) {
    return ValueMeaning::limit;
  }
  const bool marks = has_any(words, markers) || has_all(words, {"no", "data"}) ||
                     has_all(words, {"no", "value"}) || has_all(words, {"bad", "value"}) ||
                     has_all(words, {"null", "value"}) || has_all(words, {"mask", "value"});
  if (marks && !has_any(words, counts)) return ValueMeaning::marker;
  const bool multiplies =
      has_any(words, factors) || (has_any(words, {"factor"}) && has_any(words, kinds_of_factor));
  if (multiplies && !has_any(words, other_scales)) return ValueMeaning::factor;
  const bool adds = has_any(words, addends) || has_all(words, {"zero", "point"});
  if (adds && !has_any(words, other_offsets)) return ValueMeaning::addend;
  return std::nullopt;
}

bool may_change_values(std::string_view name, const AttributeContent& content, Signedness stored) {
  const auto meaning = value_meaning(name);
  return meaning && !changes_nothing(*meaning, content_of(content), stored);
}

}  // namespace shardstream::io
