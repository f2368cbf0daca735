#include "scale/launch/words.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::scale {
namespace {

bool is_of_key(char letter) {
  return (lower(letter) >= 'a' && lower(letter) <= 'z') || letter == '-';
}

/// The key between the brace at `open` and the next one; empty if no key is there.
std::string_view key_at(std::string_view text, std::size_t open) {
  const std::string_view rest = text.substr(open + 1);
  const auto end =
      static_cast<std::size_t>(std::ranges::find_if_not(rest, is_of_key) - rest.begin());
  return end < rest.size() && rest[end] == '}' ? rest.substr(0, end) : std::string_view();
}

[[noreturn]] void fail_as_unknown(std::string_view option, std::string_view key,
                                  const Keys& values) {
  std::vector<std::string> known;
  for (const auto& [name, value] : values) known.push_back(fmt::format("{{{}}}", name));
  throw UsageError(fmt::format("{}: unknown key {} (known: {}; {{{{{}}}}} stands for {{{}}})",
                               option, excerpt(fmt::format("{{{}}}", key)),
                               join_and({known.begin(), known.end()}), key, key));
}

}  // namespace

std::vector<std::string> command_words(std::string_view option, std::string_view line) {
  std::vector<std::string> words;
  bool is_open = false;  // the last word may still grow
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char letter = line[at];
    if (letter == ' ' || letter == '\t') {
      is_open = false;
      continue;
    }
    if (!is_open) words.emplace_back();
    is_open = true;
    if (letter != '\'' && letter != '"') {
      words.back() += letter;
      continue;
    }
    const auto end = line.find(letter, at + 1);
    if (end == line.npos) {
      throw UsageError(fmt::format("{}: the quote {} is not closed: close it", option,
                                   excerpt(line.substr(at))));
    }
    words.back() += line.substr(at + 1, end - at - 1);
    at = end;
  }
  return words;
}

std::string command_line_of(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    const bool is_plain = !word.empty() && word.find_first_of(" \t'\"") == word.npos;
    std::string quoted = "'";
    for (const char letter : word) {
      quoted += letter == '\'' ? std::string("'\"'\"'") : std::string(1, letter);
    }
    line += (line.empty() ? "" : " ") + (is_plain ? word : quoted + "'");
  }
  return line;
}

std::string filled(std::string_view option, std::string_view text, const Keys& values) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool is_twice = text.substr(at).starts_with("{{");
    const std::string_view key =
        text[at] == '{' ? key_at(text, is_twice ? at + 1 : at) : std::string_view();
    if (is_twice && !key.empty() && text.substr(at + key.size() + 2).starts_with("}}")) {
      result += text.substr(at + 1, key.size() + 2);
      at += key.size() + 3;
    } else if (!is_twice && !key.empty()) {
      const auto found = values.find(key);
      if (found == values.end()) fail_as_unknown(option, key, values);
      result += found->second;
      at += key.size() + 1;
    } else {
      result += text[at];
    }
  }
  return result;
}

}  // namespace shardstream::scale
