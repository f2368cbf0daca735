#include "report/page/figures/axes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <functional>

#include "core/text.hpp"

namespace shardstream::report::page {
namespace {

constexpr double from_prefix = 1e4;  // numbers from here on have prefixes

/// A number in thousands, millions and so on, and the prefix of the SI.
struct Prefixed {
  double value;
  std::string_view prefix;
};

Prefixed prefixed(double value) {
  constexpr std::array<std::string_view, 7> prefixes = {"", "k", "M", "G", "T", "P", "E"};
  constexpr double thousand = 1000, rounding = 1e-9;
  std::size_t i = 0;
  for (; i + 1 < prefixes.size() && std::abs(value) >= thousand * (1 - rounding); ++i) {
    value /= thousand;
  }
  return {value, prefixes[i]};
}

struct Tic {
  double value;
  std::string text;
};

/// If the largest number has a prefix, all thousands have: "5k", "10k".
std::vector<Tic> texts_of(const std::vector<double>& values) {
  const bool have_prefixes =
      std::ranges::any_of(values, [](double value) { return std::abs(value) >= from_prefix; });
  std::vector<Tic> tics;
  for (const double value : values) {
    const Prefixed shown = have_prefixes ? prefixed(value) : Prefixed{value, ""};
    tics.push_back({value, fmt::format("{:.4g}{}", shown.value, shown.prefix)});
  }
  return tics;
}

std::string list_of(const std::vector<double>& values) {
  std::string list;
  for (const Tic& tic : texts_of(values)) {
    list += fmt::format("{}'{}' {:.9g}", list.empty() ? "" : ",", tic.text, tic.value);
  }
  return list;
}

double position(const Axis& axis, double value) {
  const auto& [lo, hi] = axis.extent;
  const double part = axis.spacing == Spacing::linear ? (value - lo) / (hi - lo)
                                                      : std::log(value / lo) / std::log(hi / lo);
  return axis.pixels * part;
}

/// Whether the texts of the values, which ascend, do not touch.
bool fit(const Axis& axis, const std::vector<double>& values) {
  constexpr double gap = 10, line = 26;  // pixels
  const std::vector<Tic> tics = texts_of(values);
  for (std::size_t i = 1; i < tics.size(); ++i) {
    const double room = position(axis, tics[i].value) - position(axis, tics[i - 1].value);
    const double needed = axis.direction == Direction::up
                              ? line
                              : (text_width(tics[i].text) + text_width(tics[i - 1].text)) / 2 + gap;
    if (room < needed) return false;
  }
  return true;
}

/// The multiples of a step that an axis has; only the first ones if there are many.
std::vector<double> multiples(const Extent& extent, double step) {
  constexpr int many = 100;
  constexpr double rounding = 1e-9;
  const double first = std::ceil(extent.lo / step - rounding);
  std::vector<double> tics;
  for (int i = 0; i < many && (first + i) * step <= extent.hi + rounding * step; ++i) {
    tics.push_back((first + i) * step + 0.0);
  }
  return tics;
}

using Accept = std::function<bool(const std::vector<double>&)>;

/// The largest set of round numbers that `accept` accepts.
std::vector<double> linear_tics(const Extent& extent, const Accept& accept) {
  const double power = std::pow(10, std::floor(std::log10(extent.hi - extent.lo)) - 1);
  for (double decade = power; decade <= 1e3 * power; decade *= 10) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      std::vector<double> tics = multiples(extent, decade * digit);
      if (accept(tics)) return tics;
    }
  }
  return {};
}

/// The largest set of round numbers on a logarithmic axis that `accept` accepts; else powers of ten
/// in `sparse`.
std::vector<double> log_tics(const Extent& extent, const Accept& accept,
                             std::vector<double>& sparse) {
  static const std::vector<std::vector<double>> steps = {
      {1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2, 2.2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9},
      {1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8},
      {1, 2, 3, 5, 7},
      {1, 2, 5},
      {1, 3},
      {1}};
  for (const auto& step : steps) {
    sparse.clear();
    for (double decade = std::pow(10, std::floor(std::log10(extent.lo))); decade <= extent.hi;
         decade *= 10) {
      for (const double digit : step) {
        if (decade * digit >= extent.lo && decade * digit <= extent.hi) {
          sparse.push_back(decade * digit);
        }
      }
    }
    if (accept(sparse)) return sparse;
  }
  return {};
}

/// The start of a word that is at most this wide, but at least one letter; if possible, up to a
/// punctuation mark.
std::string_view start_of(std::string_view word, double pixels) {
  const auto is_inside_letter = [&](std::size_t at) {
    return at < word.size() && (static_cast<unsigned char>(word[at]) & 0xc0U) == 0x80;
  };
  std::size_t size = word.size();
  while (size > 1 && (is_inside_letter(size) || text_width(word.substr(0, size)) > pixels)) --size;
  while (is_inside_letter(size)) ++size;
  if (size == word.size()) return word;
  const auto mark = word.substr(0, size).find_last_of("_=-/.:");
  return word.substr(0, mark == word.npos || mark == 0 ? size : mark + 1);
}

/// Every n-th value.
std::vector<double> thinned(const std::vector<double>& values, std::size_t every) {
  std::vector<double> kept;
  for (std::size_t i = 0; i < values.size(); i += every) kept.push_back(values[i]);
  return kept;
}

}  // namespace

Extent log_extent(const std::vector<double>& values) {
  constexpr double smallest = 1e-100, largest = 1e100;  // beyond any measurement
  Extent extent{INFINITY, 0};
  for (const double value : values) {
    if (!std::isfinite(value) || value <= 0) continue;
    extent.lo = std::min(extent.lo, std::clamp(value, smallest, largest));
    extent.hi = std::max(extent.hi, std::clamp(value, smallest, largest));
  }
  if (extent.hi <= 0) return {0.1, 10};
  const double room = std::max(1.08, std::pow(extent.hi / extent.lo, 0.06));
  const double more = std::max(1.0, std::sqrt(min_log_ratio / (extent.hi / extent.lo)));
  return {extent.lo / room / more, extent.hi * room * more};
}

std::string log_tics(const Extent& extent) {
  constexpr std::size_t max = 7;
  std::vector<double> sparse;
  const std::vector<double> tics = log_tics(
      extent, [](const auto& values) { return values.size() <= max; }, sparse);
  return list_of(tics.empty() ? thinned(sparse, sparse.size() / max + 1) : tics);
}

std::string doubling_tics(const Extent& extent) {
  constexpr std::size_t max = 7;
  std::vector<double> tics;
  const auto add = [&](double value) {
    if (value >= extent.lo && value <= extent.hi) tics.push_back(value);
  };
  const auto lowest = static_cast<int>(std::floor(std::log2(extent.lo)));
  const auto highest = static_cast<int>(std::ceil(std::log2(extent.hi)));
  for (const int parts : {4, 2, 1}) {  // between two powers of two
    tics.clear();
    for (int power = lowest; power <= highest; ++power) {
      for (int part = 0; part < parts; ++part) {
        add(std::exp2(power) * (1 + part / static_cast<double>(parts)));
      }
    }
    if (tics.size() <= (parts > 1 ? max - 2 : max)) return list_of(tics);
  }
  const int step = 1 + (highest - lowest) / static_cast<int>(max);
  tics.clear();
  for (int power = lowest; power <= highest; ++power) {
    if (power % step == 0) add(std::exp2(power));
  }
  return list_of(tics);
}

std::string fitting_tics(const Axis& axis) {
  constexpr std::size_t max = 8;
  const Accept accept = [&](const std::vector<double>& values) {
    return values.size() <= max && fit(axis, values);
  };
  if (axis.spacing == Spacing::linear) return list_of(linear_tics(axis.extent, accept));
  std::vector<double> sparse;
  std::vector<double> tics = log_tics(axis.extent, accept, sparse);
  for (std::size_t every = 2; tics.empty() && every <= sparse.size(); ++every) {
    if (accept(thinned(sparse, every))) tics = thinned(sparse, every);
  }
  return list_of(tics);
}

std::string fitting_tics(const Axis& axis, std::vector<double> values) {
  constexpr std::size_t few = 6;
  std::ranges::sort(values);
  const auto rest = std::ranges::unique(values);
  values.erase(rest.begin(), rest.end());
  constexpr std::size_t short_text = 4;
  const bool are_short = std::ranges::all_of(values, [](double x) {
    return x < from_prefix && fmt::format("{:.4g}", x).size() <= short_text;
  });
  const bool are_good = !values.empty() && values.size() <= few && are_short && fit(axis, values);
  return are_good ? list_of(values) : fitting_tics(axis);
}

double text_width(std::string_view text) {
  constexpr double thin = 4.7, narrow = 5.7, slim = 8.3, usual = 8.9, capital = 10.2, wide = 13.8;
  double width = 0;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte >= 0x80) {
      if (byte >= 0xc0) width += byte >= 0xe0 ? wide : usual;  // the first byte of a letter
    } else if (std::string_view(" .,:;'|!ijlI/").find(letter) != std::string_view::npos) {
      width += thin;
    } else if (std::string_view("ftr()[]-").find(letter) != std::string_view::npos) {
      width += narrow;
    } else if (std::string_view("ckszvxy").find(letter) != std::string_view::npos) {
      width += slim;
    } else if (std::string_view("mwMW%@+=<>").find(letter) != std::string_view::npos) {
      width += wide;
    } else {
      width += std::isupper(byte) != 0 ? capital : usual;
    }
  }
  return width;
}

std::vector<std::string> lines_of(std::string_view text, double pixels) {
  constexpr double rounding = 1e-6;
  constexpr std::size_t max_lines = 4;
  constexpr std::string_view ellipsis = "\xe2\x80\xa6";
  const double max = pixels + rounding;
  std::vector<std::string> lines(1);
  const auto append = [&](std::string_view part) {
    std::string longer = lines.back();
    if (!longer.empty()) longer += ' ';
    longer += part;
    const bool fits = text_width(longer) <= max;
    if (fits) lines.back() = std::move(longer);
    return fits;
  };
  for (std::string_view rest = text; !rest.empty();) {
    const auto comma = rest.find(", ");
    const std::string_view part = rest.substr(0, comma == rest.npos ? comma : comma + 1);
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    if (append(part)) continue;
    if (!lines.back().empty()) lines.emplace_back();
    for (std::string_view word : split(part, ' ')) {
      while (!append(word)) {
        if (!lines.back().empty()) {
          lines.emplace_back();
          continue;
        }
        lines.back() = start_of(word, max);
        word.remove_prefix(lines.back().size());
        if (word.empty()) break;
      }
    }
  }
  if (lines.size() <= max_lines) return lines;
  lines.resize(max_lines);
  lines.back() = std::string(start_of(lines.back(), max - text_width(ellipsis))).append(ellipsis);
  return lines;
}

std::string amount_text(double value, std::string_view unit) {
  const Prefixed shown = std::abs(value) >= from_prefix ? prefixed(value) : Prefixed{value, ""};
  return fmt::format("{:.3g}{}{}{}", shown.value, unit.empty() ? "" : " ", shown.prefix, unit);
}

}  // namespace shardstream::report::page
