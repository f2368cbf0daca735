#include "core/utf8.hpp"

namespace shardstream {

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return {0, 0};
  std::uint32_t code = lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {0, 0};
    code = code << 6 | (byte(i) & 0x3f);
  }
  // By length; an overlong encoding of a smaller code is not valid UTF-8.
  constexpr std::uint32_t min_code[] = {0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  const bool is_valid = code >= min_code[length - 2] && code <= 0x10ffff && !is_surrogate;
  return is_valid ? Character{length, code} : Character{0, 0};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = first_character(text).length;
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string as_utf8(std::string_view text) {
  if (is_utf8(text)) return std::string(text);
  std::string made;
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (byte < 0x80) {
      made += c;
    } else {
      made += static_cast<char>(0xc0 | byte >> 6);
      made += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return made;
}

std::string_view first_bytes(std::string_view text, std::size_t max) {
  if (text.size() <= max) return text;
  std::size_t end = max;  // moved back if it is inside a character
  while (max - end < 3 && end > 0 && (static_cast<std::uint8_t>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace shardstream
