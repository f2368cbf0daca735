#include "report/page/gnuplot.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "core/text.hpp"
#include "process/filter.hpp"

namespace shardstream::report::page {
namespace {

constexpr int timeout = 120;  // seconds; a picture takes some milliseconds

std::string marker(std::size_t i) {
  return fmt::format("<!-- picture {} -->", i);
}

/// The text from `open` to the next `close`, both included; empty if there is none.
std::string_view between(std::string_view text, std::string_view open, std::string_view close) {
  const auto begin = text.find(open);
  if (begin == text.npos) return {};
  const auto end = text.find(close, begin);
  return end == text.npos ? "" : text.substr(begin, end - begin + close.size());
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// Groups without content, of which gnuplot writes many.
void remove_empty_groups(std::string& svg) {
  for (auto at = svg.find("<g "); at != svg.npos; at = svg.find("<g ", at + 1)) {
    while (svg.compare(at, 3, "<g ") == 0) {
      const auto end = svg.find('>', at);
      if (end == svg.npos || svg.compare(end + 1, 5, "\n</g>") != 0) break;
      const auto after = end + 6;
      svg.erase(at, after - at + (after < svg.size() && svg[after] == '\n' ? 1 : 0));
    }
  }
}

/// All scripts from `first` on, each with its marker.
std::string input_of(const std::vector<std::string>& scripts, std::size_t first) {
  std::string input = "set print '-'\n";
  for (std::size_t i = first; i < scripts.size(); ++i) {
    input += fmt::format("reset\nset output\nprint '{}'\n{}\nset output\n", marker(i), scripts[i]);
  }
  return input;
}

}  // namespace

Drawing draw(const std::vector<std::string>& scripts) {
  constexpr int max_starts = 20;
  Drawing drawing;
  drawing.pictures.resize(scripts.size());
  std::size_t first = 0;
  // gnuplot ends at the first script that it cannot draw. The next start skips this script.
  for (int starts = 0; first < scripts.size() && starts < max_starts; ++starts) {
    const process::FilterOutput output =
        process::filter({"gnuplot", "-d"}, input_of(scripts, first), timeout);
    if (!output.started) {
      drawing.why_not = "gnuplot is not installed (package gnuplot-nox)";
      return drawing;
    }
    for (; first < scripts.size(); ++first) {
      std::string_view part = between(output.out, marker(first), "</svg>");
      if (part.find(marker(first + 1)) != part.npos) part = {};  // another one's picture
      drawing.pictures[first] = between(part, "<svg", "</svg>");
      if (drawing.pictures[first].empty()) break;
    }
    if (first == scripts.size()) break;
    drawing.why_not = fmt::format("gnuplot has ended with exit code {}: {}", output.code,
                                  excerpt(trim(output.err)));
    ++first;
  }
  return drawing;
}

std::string inlined(const std::string& picture, const std::string& prefix) {
  std::string svg = picture;
  for (const auto& [open, close] :
       {std::pair{"<title>", "</title>"}, {"<desc>", "</desc>"}, {"<filter", "</filter>"}}) {
    for (auto found = between(svg, open, close); !found.empty();
         found = between(svg, open, close)) {
      svg.erase(static_cast<std::size_t>(found.data() - svg.data()), found.size());
    }
  }
  const std::array<std::pair<std::string, std::string>, 9> changes = {{
      {" id='", fmt::format(" id='{}", prefix)},
      {" id=\"", fmt::format(" id=\"{}", prefix)},
      {"href='#", fmt::format("href='#{}", prefix)},
      {"url(#", fmt::format("url(#{}", prefix)},
      {" color=\"black\"", ""},
      {"fill=\"black\"", "fill=\"currentColor\""},
      {"stroke='black'", "stroke='currentColor'"},
      {" font-family=\"sans-serif\" font-size=\"14.00\" ", ""},
      {"color='white'", "color='transparent'"},
  }};
  for (const auto& [from, to] : changes) replace_all(svg, from, to);
  remove_empty_groups(svg);
  constexpr std::string_view start = "<svg";
  return svg.replace(0, start.size(), "<svg aria-hidden=\"true\" focusable=\"false\"");
}

}  // namespace shardstream::report::page
