#include "core/options/ini_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <fstream>
#include <sstream>
#include <system_error>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"

namespace shardstream::options {
namespace {

namespace po = boost::program_options;

constexpr std::uintmax_t max_bytes = 1 << 20;  // a larger file was named by mistake

[[noreturn]] void fail_as_large(const std::filesystem::path& file, const std::string& size) {
  throw UsageError(fmt::format("'{}' has {}: name an INI file, which has at most {}", file.string(),
                               size, format_size(max_bytes)));
}

std::ifstream open(const std::filesystem::path& file) {
  std::error_code ignored;  // any other problem ends in "cannot be opened"
  if (!std::filesystem::exists(file, ignored)) {
    throw UsageError(
        fmt::format("there is no file '{}': name an INI file that exists", file.string()));
  }
  if (std::filesystem::is_directory(file, ignored)) {
    throw UsageError(fmt::format("'{}' is a directory: name an INI file", file.string()));
  }
  if (const auto bytes = std::filesystem::file_size(file, ignored); !ignored && bytes > max_bytes) {
    fail_as_large(file, format_size(bytes));
  }
  std::ifstream in(file, std::ios::binary);
  if (in) return in;
  throw UsageError(fmt::format("'{}' cannot be opened: check its permissions", file.string()));
}

/// Reads an INI file with Boost's parser. Each assignment is parsed alone, under the header of its
/// section, so that every error has a line number. Boost does not see a byte-order mark, comments,
/// or a '#' in a value, which it would take for a comment. Quotes are removed after Boost's parser.
/// Boost's matching of abbreviated keys happens in po::store, which is not used.
class IniReader {
 public:
  IniReader(const std::vector<OptionRow>& rows, const std::filesystem::path& file)
      : rows_(rows), file_(file.string()) {}

  /// Adds every value of the file.
  void read(Values& values) {
    std::istringstream lines(read_ini_text(file_));
    for (std::string text; std::getline(lines, text);) {
      ++line_;
      std::string_view line = text;
      constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
      if (line_ == 1 && line.starts_with(byte_order_mark)) {
        line.remove_prefix(byte_order_mark.size());
      }
      line = trim(line);
      reject_control_characters(line);
      line = trim(line.substr(0, comment_start(line)));
      if (line.starts_with('[')) {
        enter_section(line);
      } else if (!line.empty()) {
        assign(std::string(line), values);
      }
    }
  }

 private:
  static constexpr char hidden_hash = '\x1f';  // reject_control_characters keeps it out

  [[noreturn]] void fail(std::string_view why) const {
    throw UsageError(fmt::format("{}:{}: {}", file_, line_, why));
  }

  /// Rejects a binary file that was named by mistake before its bytes reach a terminal.
  void reject_control_characters(std::string_view line) const {
    const bool is_text = std::all_of(line.begin(), line.end(), [](char c) {
      return static_cast<unsigned char>(c) >= 0x20 || c == '\t';
    });
    if (!is_text) fail("not a line of text: an INI file holds lines of 'key = value'");
  }

  /// The position of the comment: of a '#' or ';' at the start of the line or after white space.
  /// Quotes round the value protect these characters; a quote inside the value is an apostrophe.
  std::size_t comment_start(std::string_view line) const {
    const auto equals = line.find('=');
    const std::size_t value =
        equals == line.npos ? line.npos : line.find_first_not_of(" \t", equals + 1);
    char quote = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      const bool is_mark = c == '#' || c == ';';
      if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (is_mark && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
        return i;
      } else if (i == value && (c == '"' || c == '\'')) {
        quote = c;
      }
    }
    if (quote != 0) fail(fmt::format("the quote {} is not closed", excerpt(line.substr(value))));
    return line.npos;
  }

  void enter_section(std::string_view line) {
    const std::string_view name = trim(line.substr(1, line.size() - 2));
    if (!line.ends_with(']') || name.empty()) {
      fail(fmt::format("{} is not a section: write [name]", excerpt(line)));
    }
    section_ = fmt::format("[{}]\n", name);
  }

  void assign(std::string line, Values& values) {
    std::replace(line.begin(), line.end(), '#', hidden_hash);
    std::istringstream lines(section_ + line);
    std::vector<po::option> parsed;
    try {
      parsed = po::parse_config_file(lines, po::options_description(), true).options;
    } catch (const po::error&) {
      std::replace(line.begin(), line.end(), hidden_hash, '#');
      fail(fmt::format("{} is neither [section] nor key = value", excerpt(line)));
    }
    expect(parsed.size() == 1, "one line of an INI file is one assignment");
    const std::string key = restored(parsed[0].string_key);
    if (find_row(rows_, key) == nullptr) {
      fail(fmt::format("unknown key {}{}", excerpt(key), did_you_mean(nearest_key(rows_, key))));
    }
    const std::string value = unquoted(restored(parsed[0].value.at(0)));
    const auto [first, is_new] = line_of_.emplace(key, line_);
    if (!is_new) {
      fail(fmt::format("'{}' is given twice, as {} in line {} and as {} here: keep one", key,
                       excerpt(values.at(key).text), first->second, excerpt(value)));
    }
    values[key] = {value, fmt::format("{}:{}", file_, line_)};
  }

  static std::string restored(std::string text) {
    std::replace(text.begin(), text.end(), hidden_hash, '#');
    return text;
  }

  /// Removes quotes that enclose the whole value; "a" "b" stays as it is.
  static std::string unquoted(const std::string& text) {
    const bool quoted = text.size() >= 2 && (text[0] == '"' || text[0] == '\'') &&
                        text.find(text[0], 1) == text.size() - 1;
    return quoted ? text.substr(1, text.size() - 2) : text;
  }

  const std::vector<OptionRow>& rows_;
  std::string file_;
  std::size_t line_ = 0;
  std::string section_;  ///< the last header line, or nothing
  std::map<std::string, std::size_t> line_of_;
};

}  // namespace

std::string read_ini_text(const std::filesystem::path& file) {
  std::ifstream in = open(file);
  std::string text(max_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) {
    throw UsageError(fmt::format("'{}' could not be read to its end", file.string()));
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > max_bytes) {
    fail_as_large(file, fmt::format("more than {}", format_size(max_bytes)));
  }
  return text;
}

void read_ini(const std::vector<OptionRow>& rows, const std::filesystem::path& file,
              Values& values) {
  IniReader(rows, file).read(values);
}

}  // namespace shardstream::options
