// Text and tables as HTML. Everything that may come from a file passes through escape().
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardstream::report::page {

/// `text` as content or as an attribute's value between double quotes. Bytes that are not UTF-8 and
/// control characters become U+FFFD.
std::string escape(std::string_view text);

/// A table of plain texts.
struct Grid {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows = {};
};

/// Cells that begin like a number are aligned to the right.
std::string to_html(const Grid& grid);

/// `content`, which is HTML, folded below `summary`, which is plain text.
std::string folded(std::string_view summary, const std::string& content);

}  // namespace shardstream::report::page
