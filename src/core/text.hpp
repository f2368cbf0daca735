// Helpers for text: splitting and joining it, quoting it in messages, and wrapping it.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace shardstream {

/// The lower-case letter of an ASCII capital; any other character as it is. Independent of the
/// locale.
inline char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// `text` without the white space round it.
inline std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n\v\f";
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// The trimmed pieces between separators, empty ones included; empty text is one empty piece.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (auto end = text.find(separator); end != std::string_view::npos; end = text.find(separator)) {
    pieces.push_back(trim(text.substr(0, end)));
    text.remove_prefix(end + 1);
  }
  pieces.push_back(trim(text));
  return pieces;
}
/// The pieces would refer to a string that is gone.
template <std::same_as<std::string> Temporary>
void split(Temporary&& text, char separator) = delete;

/// The trimmed items of a list: the pieces between commas outside parentheses, as in "a, f(b,c)".
std::vector<std::string_view> list_items(std::string_view text);
template <std::same_as<std::string> Temporary>
void list_items(Temporary&& text) = delete;

/// "a, b, c": the items joined by `separator`. `words` converts an item to text or to a whole
/// number. This is not fmt::join, because GCC 12 warns about it in fmt 9 at -O2.
template <class Items, class Words = std::identity>
std::string join(const Items& items, std::string_view separator, const Words& words = {}) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += separator;
    if constexpr (std::is_integral_v<std::decay_t<decltype(words(item))>>) {
      text += std::to_string(words(item));
    } else {
      text += words(item);
    }
  }
  return text;
}

/// " and 3 more", the number of items after the first `shown`; empty if there are none.
std::string and_more(std::size_t count, std::size_t shown);

/// "a, b, c and 2 more": the first `max` items, as by join(), and the number of the others.
template <class Items, class Words = std::identity>
std::string join_first(const Items& items, std::size_t max, std::string_view separator,
                       const Words& words = {}) {
  const std::span first = std::span(items).first(std::min(std::size(items), max));
  return join(first, separator, words) + and_more(std::size(items), max);
}

/// `text` for a terminal: bytes that are not printable UTF-8 become \xNN, so that the text can
/// neither control the terminal nor start a new line.
std::string printable(std::string_view text);

/// The same for a text of several lines, whose line breaks stay.
std::string printable_lines(std::string_view text);

/// A count with its noun: "1 rank", "3 launches".
template <typename Count>
std::string counted(Count count, std::string_view noun) {
  std::string text = std::to_string(count);
  text.append(" ").append(noun);
  return count == Count{1} ? text
                           : text.append(noun.ends_with("ch") || noun.ends_with("ss") ? "es" : "s");
}

/// The number of bytes that excerpt() shows.
inline constexpr std::size_t max_excerpt = 80;

/// A user's text for a message: 'printable(text)'. A longer text is cut off and its length is
/// added.
std::string excerpt(std::string_view text);

/// The candidate nearest to `word` by edit distance (Damerau–Levenshtein), or empty if none is near
/// enough to be a typing error.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

/// The choice that other programs call `word`; otherwise the nearest one. `other_names` has pairs
/// such as "std=stddev avg=mean".
std::string_view meant_choice(std::string_view word, const std::vector<std::string_view>& choices,
                              std::string_view other_names);

/// " (did you mean X?)", or nothing if `meant` is empty.
std::string did_you_mean(std::string_view meant);

/// "a, b or c", "a, b and c"
std::string join_or(const std::vector<std::string_view>& words);
std::string join_and(const std::vector<std::string_view>& words);

/// The words on one line, quoted for a shell.
std::string shell_line(const std::vector<std::string>& words);

/// `left`, then the words of `right` from `column` on, in lines of at most 100 characters. Words of
/// `right` are separated by single spaces.
std::string wrapped(const std::string& left, const std::string& right, std::size_t column);

}  // namespace shardstream
