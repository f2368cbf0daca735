// Texts and tables in Markdown.
#include <fmt/format.h>

#include "core/text.hpp"
#include "report/formats.hpp"

namespace shardstream::report {

std::string for_markdown(const std::string& text) {
  std::string result;
  for (const char c : printable(text)) {
    if (std::string_view("\\`*_{}[]<>#|").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string to_markdown(const Table& table) {
  const auto line = [](const auto& cells, const auto& words) {
    return fmt::format("| {} |\n", join(cells, " | ", words));
  };
  const auto name = [](const Column& column) { return for_markdown(column.name); };
  std::string text = line(table.columns(), name) +
                     line(table.columns(), [](const Column&) { return std::string("---"); });
  for (const Row& row : table.rows()) {
    text += line(row.cells(),
                 [](const Cell& cell) { return for_markdown(shardstream::to_text(cell)); });
  }
  return text;
}

}  // namespace shardstream::report
