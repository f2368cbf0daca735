// Text and tables as HTML. Every text that may come from a file passes through escape().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/table.hpp"

namespace shardstream::report::page {

/// Escapes `text` for the content of an element, or for the value of an attribute in double quotes.
/// Control characters and bytes that are not UTF-8 become U+FFFD.
std::string escape(std::string_view text);

/// Escapes a sentence for the content of an element; words between back-ticks become <code>.
std::string with_code(std::string_view sentence);
/// The sentence without the back-ticks around words, for places without markup; not escaped.
std::string without_ticks(std::string_view sentence);

/// A table of plain texts.
struct Grid {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows = {};
};

/// The cells of a table as text, and the names of its columns as words.
Grid grid_of(const Table& table);

/// Without the columns that have "-" in every row.
Grid without_unknown_columns(const Grid& grid);

/// Cells that begin like a number are aligned to the right.
std::string to_html(const Grid& grid);

/// `content`, which is HTML, folded below `summary`, which is plain text.
std::string folded(std::string_view summary, const std::string& content);

}  // namespace shardstream::report::page
