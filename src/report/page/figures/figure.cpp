#include "report/page/figures/figure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/output/contents.hpp"

namespace shardstream::report::page {
namespace {

std::string dashes_of(const Style& style) {
  if (style.dashes.empty()) return "dt 1";
  std::string list(style.dashes);
  std::ranges::replace(list, ' ', ',');
  return fmt::format("dt ({})", list);
}

/// A marker like gnuplot's, in a box from 0 to 12.
std::string marker_of(const Style& style) {
  switch (style.point) {
    case 5:
      return "<rect x=\"10\" y=\"2\" width=\"8\" height=\"8\"/>";
    case 4:
      return fmt::format(
          "<rect x=\"10\" y=\"2\" width=\"8\" height=\"8\" fill=\"none\" "
          "stroke=\"{}\" stroke-width=\"1.5\"/>",
          style.colour);
    case 9:
      return "<path d=\"M14 1l5 9h-10z\"/>";
    case 11:
      return "<path d=\"M14 11l5-9h-10z\"/>";
    case 13:
      return "<path d=\"M14 1l5 5-5 5-5-5z\"/>";
    case 0:
      return "";
    default:
      return "<circle cx=\"14\" cy=\"6\" r=\"4\"/>";
  }
}

/// A drawing of 28 x 12 with the `attributes` of its element.
std::string swatch(const Legend& legend, const std::string& attributes) {
  const Style& style = legend.style;
  std::string shape;
  if (legend.look == Look::band || legend.look == Look::box) {
    shape = fmt::format("<rect x=\"2\" y=\"1\" width=\"24\" height=\"10\" fill-opacity=\"{}\"/>",
                        legend.look == Look::band ? "0.25" : "1");
  }
  if (legend.look == Look::line || legend.look == Look::line_and_points) {
    shape += fmt::format(
        "<path d=\"M0 6h28\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>", style.colour,
        style.dashes.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", style.dashes));
  }
  if (legend.look == Look::points || legend.look == Look::line_and_points) {
    shape += marker_of(style);
  }
  return fmt::format("<svg {} viewBox=\"0 0 28 12\" aria-hidden=\"true\" fill=\"{}\">{}</svg>",
                     attributes, style.colour, shape);
}

std::string legend_html(const std::vector<Legend>& legend) {
  if (legend.empty()) return {};
  std::string html = "<ul class=\"legend\">";
  for (const Legend& entry : legend) {
    html += fmt::format("<li>{}{}</li>", swatch(entry, "class=\"swatch\""), escape(entry.words));
  }
  return html + "</ul>\n";
}

std::string picture_html(const Figure& figure, const std::string& why_not) {
  if (figure.pictures.empty() || figure.pictures.front().empty()) {
    const bool is_drawable = !figure.script.empty();
    return fmt::format(
        "<p class=\"missing\">{}.</p>\n",
        escape(is_drawable ? "No picture: " + why_not : "Not shown: " + figure.why_missing));
  }
  const bool has_two = figure.pictures.size() > 1 && !figure.pictures.back().empty();
  std::string html =
      fmt::format("<div class=\"picture{}\" role=\"img\" aria-label=\"{}\">{}</div>",
                  has_two ? " narrow" : "", escape(figure.title), figure.pictures.front());
  if (has_two) {
    html += fmt::format("<div class=\"picture wide\" role=\"img\" aria-label=\"{}\">{}</div>",
                        escape(figure.title), figure.pictures.back());
  }
  return html + '\n';
}

/// Lines of at most `width` letters, broken at blanks.
std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines(1);
  for (const std::string_view word : split(text, ' ')) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width)
      lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

/// Width and height from the viewBox of the picture.
std::pair<int, int> size_of(const std::string& picture) {
  std::pair<int, int> size;
  const auto at = picture.find("viewBox");
  const bool is_known =
      at != picture.npos &&
      std::sscanf(picture.c_str() + at, "viewBox=\"0 0 %d %d\"", &size.first, &size.second) == 2;
  expect(is_known, "a picture of gnuplot has a size");
  return size;
}

/// Places lines of text and pictures from top to bottom of an SVG document.
class Column {
 public:
  void add_text(const std::string& text, int size, const char* look, int width) {
    for (const std::string& line : wrapped(text, letters_in(width, size))) {
      y_ += size + 5;
      svg_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" {}>{}</text>\n", +margin, y_,
                          size, look, escape(line));
    }
  }
  void add_legend(const Legend& entry, int width) {
    constexpr int size = 12, indent = 36;
    svg_ +=
        swatch(entry, fmt::format("x=\"{}\" y=\"{}\" width=\"28\" height=\"12\"", +margin, y_ + 8));
    for (const std::string& line : wrapped(entry.words, letters_in(width - indent, size))) {
      y_ += size + 6;
      svg_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\">{}</text>\n", margin + indent,
                          y_, +size, escape(line));
    }
  }
  void add_picture(const std::string& picture, int width, int height) {
    y_ += 10;
    svg_ += fmt::format("<svg y=\"{}\" width=\"{}\" height=\"{}\">{}</svg>\n", y_, width, height,
                        picture);
    y_ += height;
  }
  /// The document: dark on white, so that it fits on any page.
  std::string document(const std::string& title, int width) const {
    return fmt::format(
        "{4}xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" "
        "viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" "
        "font-size=\"14\" color=\"#1b2530\" fill=\"#1b2530\">\n<title>{2}</title>\n"
        "<rect width=\"{0}\" height=\"{1}\" rx=\"8\" fill=\"#fff\"/>\n{3}</svg>\n",
        width, y_ + margin, escape(title), svg_, io::figure_start);
  }

 private:
  static constexpr int margin = 14;

  static std::size_t letters_in(int width, int size) {
    const double letter = 0.56 * size;  // of a sans-serif font, on average
    return static_cast<std::size_t>((width - 2 * margin) / letter);
  }

  std::string svg_;
  int y_ = 8;
};

/// gnuplot's list of tics.
std::string list_of(const std::vector<double>& tics) {
  std::string list;
  for (const double tic : tics) {
    list += fmt::format("{}'{:.4g}' {:.9g}", list.empty() ? "" : ",", tic, tic);
  }
  return list;
}

}  // namespace

std::vector<double> values_of(const std::vector<Rows>& parts) {
  std::vector<double> values;
  for (const Rows& rows : parts) {
    for (const auto& row : rows) values.push_back(row[1]);
  }
  return values;
}

std::string line_of(const Style& style, double width) {
  return fmt::format("lc rgb '{}' lw {} {}", style.colour, width, dashes_of(style));
}

std::string points_of(const Style& style, double size) {
  return fmt::format("lc rgb '{}' pt {} ps {} lw 1.2", style.colour, style.point, size);
}

Script::Script(int width, int height) {
  set(fmt::format("set terminal svg size {},{} dynamic noenhanced font 'sans-serif,14'", width,
                  height));
  set("set key off");
  set("set border 3 lw 0.8");
  set("set tics nomirror scale 0.5");
  set("set grid lc rgb '#8a949e' lw 0.4 dt (1,4)");
  set("set lmargin 10");
  set("set rmargin 2.5");
  set("set tmargin 0.8");
}

void Script::plot(const Rows& rows, const std::string& how) {
  if (rows.empty()) return;
  data_ += fmt::format("$d{} << EOD\n", blocks_);
  for (const auto& row : rows) {
    for (const double value : row) {
      data_ += std::isfinite(value) ? fmt::format("{:.9g} ", value) : "NaN ";
    }
    data_ += '\n';
  }
  data_ += "EOD\n";
  plots_ += fmt::format("{} $d{} {}", plots_.empty() ? "plot" : ",", blocks_, how);
  ++blocks_;
}

std::string Script::text() const {
  return is_empty() ? "" : settings_ + data_ + plots_ + '\n';
}

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
  static const std::vector<std::vector<double>> steps = {
      {1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2, 2.2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9},
      {1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8},
      {1, 2, 3, 5, 7},
      {1, 2, 5},
      {1, 3},
      {1}};
  std::vector<double> tics;
  for (const auto& step : steps) {
    tics.clear();
    for (double decade = std::pow(10, std::floor(std::log10(extent.lo))); decade <= extent.hi;
         decade *= 10) {
      for (const double digit : step) {
        if (decade * digit >= extent.lo && decade * digit <= extent.hi) {
          tics.push_back(decade * digit);
        }
      }
    }
    if (tics.size() <= 7) break;
  }
  const std::size_t every = tics.size() / 7 + 1;
  std::vector<double> kept;
  for (std::size_t i = 0; i < tics.size(); i += every) kept.push_back(tics[i]);
  return list_of(kept);
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

void set_ranks_axis(Script& script, const std::vector<int>& ranks, double beyond) {
  constexpr std::size_t max = 8;
  const std::size_t every = (ranks.size() + max - 1) / max;
  std::string list;
  for (std::size_t i = 0; i < ranks.size(); i += every) {
    list += fmt::format("{}{}", list.empty() ? "" : ",", ranks[i]);
  }
  script.set("set logscale x");
  script.set(fmt::format("set xtics ({})", list));
  constexpr double room = 1.25;
  script.set(fmt::format("set xrange [{:.9g}:{:.9g}]", ranks.front() / room,
                         ranks.back() * beyond * room));
  script.set("set xlabel 'ranks'");
}

void set_log_axis(Script& script, const std::string& label, const std::vector<double>& values,
                  std::string (*tics_of)(const Extent&)) {
  const Extent extent = log_extent(values);
  script.set("set logscale y");
  script.set(fmt::format("set yrange [{:.9g}:{:.9g}]", extent.lo, extent.hi));
  script.set(fmt::format("set ytics ({})", tics_of(extent)));
  script.set(fmt::format("set ylabel '{}'", label));
}

void set_linear_axis(Script& script, const std::string& label, const Extent& extent) {
  const double margin = 0.08 * (extent.hi - extent.lo);
  script.set(fmt::format("set yrange [{:.6g}:{:.6g}]", extent.lo - (extent.lo < 0 ? margin : 0),
                         extent.hi + margin));
  script.set(fmt::format("set ylabel '{}'", label));
}

Figure missing(std::string id, std::string title, std::string why) {
  Figure figure{std::move(id), std::move(title), "", ""};
  figure.why_missing = std::move(why);
  return figure;
}

std::string to_html(const Figure& figure, const std::string& study, const std::string& why_not) {
  std::string html =
      fmt::format("<figure id=\"{}-{}\"{}>\n<figcaption>{}</figcaption>\n", study, figure.id,
                  figure.wide_script.empty() ? "" : " class=\"broad\"", escape(figure.title));
  html += legend_html(figure.legend) + picture_html(figure, why_not);
  if (!figure.how_to_read.empty()) {
    html += fmt::format("<p class=\"read\"><b>How to read it:</b> {}</p>\n",
                        escape(figure.how_to_read));
  }
  if (!figure.basis.empty()) {
    html += fmt::format("<p class=\"basis\">{}</p>\n", escape(figure.basis));
  }
  if (!figure.numbers.rows.empty()) html += folded("Numbers", to_html(figure.numbers));
  return html + "</figure>\n";
}

std::string to_svg(const Figure& figure, const std::string& subtitle) {
  expect(!figure.pictures.empty(), "a figure is drawn before it becomes a document");
  const std::string& picture = figure.pictures.back();
  const auto [width, height] = size_of(picture);
  Column column;
  column.add_text(figure.title, 14, "font-weight=\"600\"", width);
  column.add_text(subtitle, 11, "fill=\"#52606d\"", width);
  for (const Legend& entry : figure.legend) column.add_legend(entry, width);
  column.add_picture(picture, width, height);
  column.add_text(figure.basis, 11, "fill=\"#52606d\"", width);
  return column.document(figure.title, width);
}

std::string number_text(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%#.*g", digits,
                value);  // "#" keeps trailing zeros: 0.960
  std::string text = buffer.data();
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string estimate_text(const study::Estimate& estimate, int digits) {
  const std::string value = number_text(estimate.value, digits);
  if (!estimate.interval) return value;
  return fmt::format("{} [{}, {}]", value, number_text(estimate.interval->lo, digits),
                     number_text(estimate.interval->hi, digits));
}

}  // namespace shardstream::report::page
