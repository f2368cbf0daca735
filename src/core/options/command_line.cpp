#include "core/options/command_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <utility>

#include "core/error.hpp"
#include "core/options/row.hpp"
#include "core/text.hpp"
#include "core/units.hpp"

namespace shardstream::options {
namespace {

namespace po = boost::program_options;
using Words = std::span<const std::string_view>;

bool contain(Words words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

[[noreturn]] void fail_no_value(const std::vector<OptionRow>& rows, std::string_view option) {
  const std::string_view key = option == "-o" ? "output.file" : option.substr(2);
  const OptionRow* row = find_row(rows, key);
  throw UsageError(fmt::format("{} needs a value: {}", printable(option),
                               row == nullptr ? "text" : describe(*row)));
}

[[noreturn]] void fail_value_of_switch(std::string_view option, std::string_view value) {
  throw UsageError(fmt::format("{} takes no value, but {} is given: pass {} alone, or leave it out",
                               option, excerpt(value), option));
}

/// "-5" and "-.5" are values; a lone "-" is by convention the name of a file.
bool looks_like_option(std::string_view token) {
  if (token.size() < 2 || token[0] != '-') return false;
  return token[1] != '.' && (token[1] < '0' || token[1] > '9');
}

/// Joins each flag with its value, "--key=value". A flag that stands alone gets the value true.
std::vector<std::string> with_flags_joined(const std::vector<OptionRow>& rows,
                                           const std::vector<std::string>& arguments) {
  std::vector<std::string> joined;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const OptionRow* const row =
        word.starts_with("--") ? find_row(rows, std::string_view(word).substr(2)) : nullptr;
    if (row == nullptr || row->kind != OptionKind::flag) {
      joined.push_back(word);
      continue;
    }
    const bool has_value =
        i + 1 < arguments.size() && (arguments[i + 1] == "true" || arguments[i + 1] == "false");
    joined.push_back(fmt::format("{}={}", word, has_value ? arguments[++i] : "true"));
  }
  return joined;
}

po::options_description boost_options(const std::vector<OptionRow>& rows, const OwnWords& own) {
  po::options_description options;
  for (const OptionRow& row : rows) {
    const std::string names = std::string(row.key) + (row.key == "output.file" ? ",o" : "");
    options.add_options()(names.c_str(), po::value<std::string>(), "");
  }
  for (const auto each : own.switches) options.add_options()(std::string(each).c_str(), "");
  for (const auto each : own.settings) {
    options.add_options()(std::string(each).c_str(), po::value<std::string>(), "");
  }
  return options;
}

/// The options and words in their order. Boost marks unknown options instead of throwing, so that
/// fail_unknown_option() can report them.
std::vector<po::option> boost_parse(const std::vector<OptionRow>& rows, const OwnWords& own,
                                    const std::vector<std::string>& arguments) {
  namespace style = po::command_line_style;
  const po::options_description options = boost_options(rows, own);
  try {
    return po::command_line_parser(arguments)
        .options(options)
        .style(style::allow_long | style::long_allow_adjacent | style::long_allow_next |
               style::allow_short | style::allow_dash_for_short | style::short_allow_adjacent |
               style::short_allow_next)
        .allow_unregistered()
        .run()
        .options;
  } catch (const po::invalid_command_line_syntax& error) {
    if (error.kind() == po::invalid_syntax::extra_parameter) {
      const std::string option = error.get_option_name(), start = option + '=';
      const auto token = std::ranges::find_if(
          arguments, [&](const std::string& each) { return each.starts_with(start); });
      expect(token != arguments.end(), "the value of a switch follows a =");
      fail_value_of_switch(option, std::string_view(*token).substr(start.size()));
    }
    fail_no_value(rows, error.get_option_name());
  } catch (const po::error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace

void fail_unknown_option(const std::vector<OptionRow>& rows, std::string_view token,
                         const OwnWords& own) {
  const std::string_view option = token.substr(0, token.find('='));
  const std::string_view word =
      option.substr(std::min(option.find_first_not_of('-'), option.size()));
  std::vector<std::string_view> own_words(own.switches.begin(), own.switches.end());
  own_words.insert(own_words.end(), own.settings.begin(), own.settings.end());
  std::string_view meant = nearest(word, own_words);
  if (meant.empty()) meant = nearest_key(rows, word);
  throw UsageError(fmt::format("unknown option {}{}", excerpt(option),
                               did_you_mean(meant.empty() ? "" : fmt::format("--{}", meant))));
}

CommandLine parse(const std::vector<OptionRow>& rows, const std::vector<std::string>& arguments,
                  const OwnWords& own) {
  CommandLine result;
  std::string last_switch;  // empty unless the previous word was a switch
  for (const po::option& option : boost_parse(rows, own, with_flags_joined(rows, arguments))) {
    const std::vector<std::string>& tokens = option.original_tokens;
    const std::string before = std::exchange(last_switch, {});
    if (option.position_key >= 0) {
      // Boost turns "--=x" into the word "x".
      if (tokens != option.value) fail_unknown_option(rows, tokens.at(0), own);
      const std::string& word = option.value.at(0);
      if (!before.empty() && flag_of(word)) fail_value_of_switch(before, word);
      result.words.insert(result.words.end(), option.value.begin(), option.value.end());
      continue;
    }
    if (option.unregistered) fail_unknown_option(rows, tokens.at(0), own);
    // Boost takes any next word as the value, even another option.
    if (tokens.size() > 1 && looks_like_option(tokens[1])) fail_no_value(rows, tokens[0]);
    const std::string& key = option.string_key;
    if (contain(own.switches, key)) {
      result.switches.insert(key);
      last_switch = tokens.at(0);
      continue;
    }
    auto& values = contain(own.settings, key) ? result.settings : result.values;
    values[key] = option.value.at(0);
  }
  return result;
}

}  // namespace shardstream::options
