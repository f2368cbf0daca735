#include "core/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "core/utf8.hpp"

namespace shardstream {
namespace {

/// The number of bytes of the printable UTF-8 character at the beginning of `text`, which is not
/// empty. It is 0 for a control character (U+0080 to U+009F included) and for invalid UTF-8.
std::size_t printable_character(std::string_view text) {
  const auto [length, code] = first_character(text);
  const bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  return is_control ? 0 : length;
}

/// The words joined by commas, and the last one by `conjunction`.
std::string join_last(const std::vector<std::string_view>& words, std::string_view conjunction) {
  if (words.size() < 2) return join(words, "");
  const std::vector<std::string_view> first(words.begin(), words.end() - 1);
  return fmt::format("{} {} {}", join(first, ", "), conjunction, words.back());
}

/// Edit distance with transpositions of neighbours (optimal string alignment), case-insensitive.
/// See R. Lowrance and R. Wagner, J. ACM 22 (1975) 177; a transposed pair is not edited again.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  const auto same = [&](std::size_t i, std::size_t j) {
    return lower(a[i - 1]) == lower(b[j - 1]);
  };
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      cost[i][j] = std::min(
          {cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (same(i, j) ? 0 : 1)});
      if (i > 1 && j > 1 && same(i, j - 1) && same(i - 1, j)) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::vector<std::string_view> list_items(std::string_view text) {
  std::vector<std::string_view> items;
  std::size_t begin = 0, depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && depth > 0) --depth;
    if (text[i] != ',' || depth > 0) continue;
    items.push_back(trim(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  items.push_back(trim(text.substr(begin)));
  return items;
}

std::string and_more(std::size_t count, std::size_t shown) {
  return count > shown ? fmt::format(" and {} more", count - shown) : "";
}

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = printable_character(text);
    if (length > 0) {
      shown += text.substr(0, length);
    } else {
      shown += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(text[0]));
    }
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return shown;
}

std::string printable_lines(std::string_view text) {
  std::string shown;
  for (auto end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    shown += printable(text.substr(0, end)) + '\n';
    text.remove_prefix(end + 1);
  }
  return shown + printable(text);
}

std::string excerpt(std::string_view text) {
  if (text.size() <= max_excerpt) return fmt::format("'{}'", printable(text));
  return fmt::format("'{}'... ({} bytes)", printable(first_bytes(text, max_excerpt)), text.size());
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    const bool plain =
        !word.empty() && word.find_first_of(" \t\n'\"\\$&|;<>()*?[]#~`!{}") == word.npos;
    std::string quoted = word;
    for (auto at = quoted.find('\''); at != quoted.npos; at = quoted.find('\'', at + 4)) {
      quoted.replace(at, 1, "'\\''");
    }
    line += (line.empty() ? "" : " ") + (plain ? word : "'" + quoted + "'");
  }
  return line;
}

std::string join_or(const std::vector<std::string_view>& words) {
  return join_last(words, "or");
}

std::string join_and(const std::vector<std::string_view>& words) {
  return join_last(words, "and");
}

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  std::string_view best;
  std::size_t min_distance = SIZE_MAX;
  for (const std::string_view candidate : candidates) {
    const auto [shorter, longer] = std::minmax({word.size(), candidate.size()});
    // Different lengths need at least as many edits. This also avoids a table for a very long word.
    if (3 * (longer - shorter) > longer) continue;
    const std::size_t distance = edit_distance(word, candidate);
    // More than one edit in three characters means another word, not a typing error.
    const bool near = 3 * distance <= longer;
    if (near && distance < min_distance) {
      min_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string_view meant_choice(std::string_view word, const std::vector<std::string_view>& choices,
                              std::string_view other_names) {
  for (const std::string_view pair : split(other_names, ' ')) {
    const std::size_t equals = pair.find('=');
    if (equals != pair.npos && word == pair.substr(0, equals)) return pair.substr(equals + 1);
  }
  return nearest(word, choices);
}

std::string did_you_mean(std::string_view meant) {
  return meant.empty() ? "" : fmt::format(" (did you mean {}?)", meant);
}

std::string wrapped(const std::string& left, const std::string& right, std::size_t column) {
  constexpr std::size_t width = 100;
  std::string text;
  std::string line = left + std::string(column - left.size(), ' ');
  std::size_t words = 0;
  for (const std::string_view word : split(right, ' ')) {
    if (words > 0 && line.size() + 1 + word.size() > width) {
      text += line + '\n';
      line = std::string(column, ' ');
      words = 0;
    }
    if (words++ > 0) line += ' ';
    line += word;
  }
  return text + line + '\n';
}

}  // namespace shardstream
