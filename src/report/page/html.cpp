#include "report/page/html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <utility>

namespace shardstream::report::page {
namespace {

/// The bytes of the valid UTF-8 character at the start of `text`; 0 if there is none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  std::uint32_t code = first & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
    code = (code << 6U) | (byte(i) & 0x3fU);
  }
  constexpr std::array<std::uint32_t, 5> smallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  const bool changes_direction =
      (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code < 0xa0;
  return code < smallest[length] || is_surrogate || changes_direction || code > 0x10ffff ? 0
                                                                                         : length;
}

/// The next words between back-ticks, without these; `data()` is nullptr if there are none. The
/// first back-tick begins a word, and the last one ends it.
std::string_view next_code(std::string_view text) {
  constexpr std::string_view before = " (\n", after = " .,:;)\n";
  for (auto begin = text.find('`'); begin != text.npos; begin = text.find('`', begin + 1)) {
    const auto end = text.find('`', begin + 1);
    if (end == text.npos) break;
    const bool starts = begin == 0 || before.find(text[begin - 1]) != before.npos;
    const bool ends = end + 1 == text.size() || after.find(text[end + 1]) != after.npos;
    if (starts && ends && end > begin + 1) return text.substr(begin + 1, end - begin - 1);
  }
  return {};
}

/// Calls `plain` and `code` with the parts of a sentence, in their order.
template <class Plain, class Code>
void for_parts(std::string_view text, const Plain& plain, const Code& code) {
  for (auto words = next_code(text); words.data() != nullptr; words = next_code(text)) {
    const auto begin = static_cast<std::size_t>(words.data() - text.data());
    plain(text.substr(0, begin - 1));
    code(words);
    text.remove_prefix(begin + words.size() + 1);
  }
  plain(text);
}

bool is_number(std::string_view cell) {
  if (cell == "-") return true;
  if (cell.starts_with('-') || cell.starts_with('+')) cell.remove_prefix(1);
  return !cell.empty() && std::isdigit(static_cast<unsigned char>(cell.front())) != 0;
}

}  // namespace

std::string escape(std::string_view text) {
  constexpr std::string_view replacement = "\xef\xbf\xbd";
  std::string html;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character_length(text.substr(i));
    const unsigned char letter = static_cast<unsigned char>(text[i]);
    if (length == 0 || (letter < 0x20 && letter != '\n' && letter != '\t') || letter == 0x7f) {
      html += replacement;
    } else if (letter == '&') {
      html += "&amp;";
    } else if (letter == '<') {
      html += "&lt;";
    } else if (letter == '>') {
      html += "&gt;";
    } else if (letter == '"') {
      html += "&quot;";
    } else if (letter == '\'') {
      html += "&#39;";
    } else {
      html += text.substr(i, length);
    }
    i += length == 0 ? 1 : length;
  }
  return html;
}

std::string with_code(std::string_view sentence) {
  std::string html;
  for_parts(
      sentence, [&](std::string_view text) { html += escape(text); },
      [&](std::string_view code) { html += fmt::format("<code>{}</code>", escape(code)); });
  return html;
}

std::string without_ticks(std::string_view sentence) {
  std::string text;
  const auto add = [&](std::string_view part) { text += part; };
  for_parts(sentence, add, add);
  return text;
}

Grid grid_of(const Table& table) {
  Grid grid;
  for (const Column& column : table.columns()) {
    std::string name = column.name;
    std::ranges::replace(name, '_', ' ');
    grid.header.push_back(std::move(name));
  }
  for (const Row& row : table.rows()) {
    grid.rows.emplace_back();
    for (const Cell& cell : row.cells()) grid.rows.back().push_back(shardstream::to_text(cell));
  }
  return grid;
}

Grid without_unknown_columns(const Grid& grid) {
  Grid kept{.header = {}, .rows = std::vector<std::vector<std::string>>(grid.rows.size())};
  for (std::size_t column = 0; column < grid.header.size(); ++column) {
    const bool is_unknown = std::ranges::all_of(
        grid.rows, [column](const std::vector<std::string>& row) { return row[column] == "-"; });
    if (is_unknown) continue;
    kept.header.push_back(grid.header[column]);
    for (std::size_t i = 0; i < grid.rows.size(); ++i) {
      kept.rows[i].push_back(grid.rows[i][column]);
    }
  }
  return kept;
}

std::string to_html(const Grid& grid) {
  std::vector<bool> right(grid.header.size(), !grid.rows.empty());
  for (const auto& row : grid.rows) {
    for (std::size_t i = 0; i < row.size() && i < right.size(); ++i) {
      right[i] = right[i] && is_number(row[i]);
    }
  }
  const auto start = [&](const char* tag, std::size_t column) {
    return fmt::format("<{}{}>", tag, column < right.size() && right[column] ? " class=\"n\"" : "");
  };
  std::string html = "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>";
  for (std::size_t i = 0; i < grid.header.size(); ++i) {
    html += start("th", i) + escape(grid.header[i]) + "</th>";
  }
  html += "</tr></thead><tbody>\n";
  for (const auto& row : grid.rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      html += start("td", i) + with_code(row[i]) + "</td>";
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string folded(std::string_view summary, const std::string& content) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", escape(summary), content);
}

}  // namespace shardstream::report::page
