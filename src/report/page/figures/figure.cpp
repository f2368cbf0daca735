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
    html += fmt::format("<li>{}{}</li>", swatch(entry, "class=\"swatch\""), with_code(entry.words));
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
  const std::string title = escape(without_ticks(figure.title));
  const bool has_two = figure.pictures.size() > 1 && !figure.pictures.back().empty();
  std::string html = fmt::format("<div class=\"picture{}\" role=\"img\" aria-label=\"{}\">{}</div>",
                                 has_two ? " narrow" : "", title, figure.pictures.front());
  if (has_two) {
    html += fmt::format("<div class=\"picture wide\" role=\"img\" aria-label=\"{}\">{}</div>",
                        title, figure.pictures.back());
  }
  return html + '\n';
}

/// A text in an SVG document.
struct Font {
  int size = 11;
  bool is_bold = false;

  double width(std::string_view text) const {
    constexpr double of_figures = 14, bold = 1.12;
    return text_width(text) * size / of_figures * (is_bold ? bold : 1);
  }
};

/// Lines of at most `pixels`, broken at blanks.
std::vector<std::string> wrapped(const std::string& text, const Font& font, double pixels) {
  std::vector<std::string> lines(1);
  for (const std::string_view word : split(text, ' ')) {
    const std::string longer =
        fmt::format("{}{}{}", lines.back(), lines.back().empty() ? "" : " ", word);
    if (lines.back().empty() || font.width(longer) <= pixels) {
      lines.back() = longer;
    } else {
      lines.emplace_back(word);
    }
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
  void add_text(const std::string& text, const Font& font, const char* look, int width) {
    for (const std::string& line : wrapped(without_ticks(text), font, width - 2 * margin)) {
      y_ += font.size + 5;
      svg_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" {}>{}</text>\n", +margin, y_,
                          font.size, look, escape(line));
    }
  }
  void add_legend(const Legend& entry, int width) {
    constexpr Font font{.size = 12};
    constexpr int indent = 36;
    svg_ +=
        swatch(entry, fmt::format("x=\"{}\" y=\"{}\" width=\"28\" height=\"12\"", +margin, y_ + 8));
    const int room = width - indent - 2 * margin;
    for (const std::string& line : wrapped(without_ticks(entry.words), font, room)) {
      y_ += font.size + 6;
      svg_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\">{}</text>\n", margin + indent,
                          y_, font.size, escape(line));
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
        width, y_ + margin, escape(without_ticks(title)), svg_, io::figure_start);
  }

 private:
  static constexpr int margin = 14;

  std::string svg_;
  int y_ = 8;
};

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

std::string id_in(const std::string& study, const Figure& figure) {
  return study.empty() ? figure.id : fmt::format("{}-{}", study, figure.id);
}

std::string to_html(const Figure& figure, const std::string& study, const std::string& why_not) {
  std::string html =
      fmt::format("<figure id=\"{}\"{}>\n<figcaption>{}</figcaption>\n", id_in(study, figure),
                  figure.wide_script.empty() ? "" : " class=\"broad\"", with_code(figure.title));
  html += legend_html(figure.legend) + picture_html(figure, why_not) + figure.lesson;
  if (!figure.how_to_read.empty()) {
    html += fmt::format("<p class=\"read\"><b>How to read it:</b> {}</p>\n",
                        with_code(figure.how_to_read));
  }
  if (!figure.basis.empty()) {
    html += fmt::format("<p class=\"basis\">{}</p>\n", with_code(figure.basis));
  }
  if (!figure.numbers.rows.empty()) html += folded("Numbers", to_html(figure.numbers));
  return html + "</figure>\n";
}

std::string to_svg(const Figure& figure, const std::string& subtitle) {
  expect(!figure.pictures.empty(), "a figure is drawn before it becomes a document");
  const std::string& picture = figure.pictures.back();
  const auto [width, height] = size_of(picture);
  Column column;
  column.add_text(figure.title, {.size = 14, .is_bold = true}, "font-weight=\"600\"", width);
  column.add_text(subtitle, {}, "fill=\"#52606d\"", width);
  for (const Legend& entry : figure.legend) column.add_legend(entry, width);
  column.add_picture(picture, width, height);
  column.add_text(figure.basis, {}, "fill=\"#52606d\"", width);
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
