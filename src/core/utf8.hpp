// Texts in UTF-8, the encoding of all texts in results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardstream {

/// A character of UTF-8.
struct Character {
  std::size_t length;  ///< in bytes; 0 if the bytes are not valid UTF-8
  std::uint32_t code;
};

/// The character at the beginning of `text`, which is not empty.
Character first_character(std::string_view text);

bool is_utf8(std::string_view text);

/// The text itself if it is valid UTF-8. Otherwise it is read as Latin-1 (ISO 8859-1), in which
/// each byte is a character.
std::string as_utf8(std::string_view text);

/// The first characters of a text in UTF-8 that have at most `max` bytes together.
std::string_view first_bytes(std::string_view text, std::size_t max);

}  // namespace shardstream
