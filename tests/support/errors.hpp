// Checks of error messages: the exit code, and the options, files and values that a message names.
// The wording is free.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace shardstream::test {

/// Whether the text contains the word as a whole: `--gemm.k` is not in `--gemm.kk`, nor `1` in
/// `16`.
inline bool has_word(std::string_view text, std::string_view word) {
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    if (word.empty()) return true;
    const auto end = at + word.size();
    const bool begins = at == 0 || !in_word(text[at - 1]) || !in_word(word.front());
    const bool ends = end == text.size() || !in_word(text[end]) || !in_word(word.back());
    if (begins && ends) return true;
  }
  return false;
}

inline testing::AssertionResult names(std::string_view text,
                                      const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (has_word(text, word)) continue;
    return testing::AssertionFailure() << "'" << word << "' is missing in: " << text;
  }
  return testing::AssertionSuccess();
}

/// Whether a message contains all of these texts and numbers as whole words.
template <class... Words>
testing::AssertionResult names(std::string_view text, const Words&... words) {
  return names(text, std::vector<std::string>{fmt::format("{}", words)...});
}

/// The message of the error that `call` throws. The test fails if it throws no error or an error
/// with another exit code.
template <class Call>
std::string error_of(const Call& call, ExitCode code = ExitCode::usage) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace shardstream::test
