#include "core/options/ini_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <fstream>
#include <map>
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

/// `text` without quotes that enclose the whole of it; "a" "b" stays as it is.
std::string_view unquoted(std::string_view text) {
  const bool quoted = text.size() >= 2 && (text[0] == '"' || text[0] == '\'') &&
                      text.find(text[0], 1) == text.size() - 1;
  return quoted ? text.substr(1, text.size() - 2) : text;
}

bool is_comment_mark(std::string_view line, std::size_t i) {
  return (line[i] == '#' || line[i] == ';') &&
         (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t');
}

/// Whether the reader would change the value if it were not in quotes.
bool needs_quotes(std::string_view value) {
  if (value != trim(value) || value.starts_with('"') || value.starts_with('\'')) return true;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (is_comment_mark(value, i)) return true;
  }
  return false;
}

/// Reads an INI file with Boost's parser. Each assignment is parsed alone, under the header of its
/// section, so that every error has a line number. Boost does not see a byte-order mark, comments,
/// or a '#' in a value, which it would take for a comment. Quotes are removed after Boost's parser.
/// Boost's matching of abbreviated keys happens in po::store, which is not used.
class IniReader {
 public:
  using Use = std::function<void(const IniLine&)>;

  IniReader(const std::string& file, const Use& use) : file_(file), use_(use) {}

  void read(std::string_view all) {
    std::istringstream lines{std::string(all)};
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
        assign(std::string(line));
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
      if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (is_comment_mark(line, i)) {
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

  void assign(std::string line) {
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
    const IniLine read = {restored(parsed[0].string_key),
                          std::string(unquoted(restored(parsed[0].value.at(0)))), line_};
    const auto [first, is_new] = lines_.try_emplace(read.key, read);
    if (!is_new) {
      fail(fmt::format("'{}' is given twice, as {} in line {} and as {} here: keep one", read.key,
                       excerpt(first->second.value), first->second.number, excerpt(read.value)));
    }
    use_(read);
  }

  static std::string restored(std::string text) {
    std::replace(text.begin(), text.end(), hidden_hash, '#');
    return text;
  }

  const std::string& file_;
  const Use& use_;
  std::size_t line_ = 0;
  std::string section_;                   ///< the last header line, or nothing
  std::map<std::string, IniLine> lines_;  ///< by key
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

void for_each_ini_line(std::string_view text, const std::string& file,
                       const std::function<void(const IniLine&)>& use) {
  IniReader(file, use).read(text);
}

std::string ini_value(std::string_view value) {
  const std::string stored = stored_ini_value(value);
  if (!needs_quotes(stored)) return stored;
  const char quote = stored.find('"') == stored.npos ? '"' : '\'';
  return quote + stored + quote;
}

std::string stored_ini_value(std::string_view value) {
  const bool has_both = value.find('"') != value.npos && value.find('\'') != value.npos;
  const bool hides_quote = has_both && needs_quotes(value);
  std::string stored;
  for (const char letter : value) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool is_hidden = byte < 0x20 || byte == 0x7f || (hides_quote && letter == '"');
    stored += is_hidden ? fmt::format("\\x{:02x}", byte) : std::string(1, letter);
  }
  return stored;
}

void read_ini(const std::vector<OptionRow>& rows, const std::filesystem::path& file,
              Values& values) {
  const std::string name = file.string();
  for_each_ini_line(read_ini_text(file), name, [&](const IniLine& line) {
    if (find_row(rows, line.key) == nullptr) {
      throw UsageError(fmt::format("{}:{}: unknown key {}{}", name, line.number, excerpt(line.key),
                                   did_you_mean(nearest_key(rows, line.key))));
    }
    values[line.key] = {line.value, fmt::format("{}:{}", name, line.number)};
  });
}

}  // namespace shardstream::options
