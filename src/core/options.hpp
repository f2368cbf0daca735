// The program's options. A component that uses an option declares one OptionRow for it. The help,
// the names of environment variables, the keys of INI files and `/config` in a result all come from
// that row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardstream {

enum class OptionKind {
  text,    ///< any text
  flag,    ///< true|false (also yes|no, on|off, 1|0)
  choice,  ///< one of `range`, "a|b|c"
  /// Comma-separated; each one of `range` if that is given. A choice may have arguments: f(X,X).
  list,
  count,     ///< 42, 2^24, 1e9: a whole number
  number,    ///< 0.5, -2, 1e-3: a finite real number
  size,      ///< 64MiB, 1.5GB, 4096B or 4096: bytes
  duration,  ///< 30s, 10min, 250ms, 2h: seconds
};

/// The declaration of one option. `key` is "section.name".
struct OptionRow {
  std::string_view key;
  OptionKind kind;
  /// The default, as a user would type it. Empty means no default, for a text or a choice.
  std::string_view fallback;
  /// "1..4096" or "1..": the minimum and the maximum, as a user would type them. "a|b|c": the
  /// choices. Empty: any value. A leading "auto|" also admits the word auto.
  std::string_view range;
  std::string_view sentence;  ///< one sentence for --help
  /// Names of choices in other programs, for error messages: "std=stddev avg=mean".
  std::string_view other_names = {};
};

/// The effective values of all options. The command line takes precedence over the environment, the
/// environment over the INI file, and the INI file over the default. Every value has been checked
/// against the kind and range of its row.
///
/// Each accessor throws ContractError if no component declares the key. Accessors of numbers and
/// flags also throw it if the value is auto, so their callers check is_auto() first.
class Options {
 public:
  struct Value {
    std::string text;
    std::string origin;  ///< "command line", "environment", "FILE:LINE" or "default"
  };

  const std::string& text(std::string_view key) const;
  bool is_auto(std::string_view key) const;
  bool is_default(std::string_view key) const;
  bool is_on_command_line(std::string_view key) const;
  bool flag(std::string_view key) const;
  std::uint64_t count(std::string_view key) const;
  double number(std::string_view key) const;
  std::uint64_t bytes(std::string_view key) const;
  double seconds(std::string_view key) const;
  std::vector<std::string> list(std::string_view key) const;

  /// Every key with its value, in alphabetical order.
  const std::map<std::string, Value, std::less<>>& all() const { return values_; }

  /// One sentence for each SHARDSTREAM_* variable that matches no option, in the order of the
  /// environment.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  friend class OptionTable;
  std::map<std::string, Value, std::less<>> values_;
  std::vector<std::string> warnings_;
};

/// A parsed command line: option values by key, the command's own switches and settings, and the
/// words that are not options.
struct CommandLine {
  std::map<std::string, std::string, std::less<>> values;
  std::set<std::string, std::less<>> switches;
  std::map<std::string, std::string, std::less<>> settings;
  std::vector<std::string> words;
};

/// The rows of all components, and the readers of the three sources. All readers throw UsageError
/// with one sentence. For an unknown key, it names the nearest known key; for a bad value, the
/// range of the row. An unknown environment variable only gives a warning.
class OptionTable {
 public:
  /// Throws ContractError if a row is badly declared or two rows have the same key.
  explicit OptionTable(const std::vector<std::span<const OptionRow>>& components);
  explicit OptionTable(std::initializer_list<std::span<const OptionRow>> components)
      : OptionTable(std::vector(components)) {}

  /// A copy of this table in which `rows` replace the rows with the same keys, for a command to
  /// which an option means something else.
  OptionTable with(std::span<const OptionRow> rows) const;

  /// Reads `--key value`, `--key=value` and `-o FILE` (output.file). Abbreviations are rejected. A
  /// flag may stand alone: it takes the next word only if that is true or false. If an option is
  /// given twice, the last value counts. `switches` and `settings` are words of one command,
  /// without and with a value, such as "json" for --json. Environment variables, INI files and
  /// results do not contain them.
  CommandLine parse_command_line(const std::vector<std::string>& arguments,
                                 std::span<const std::string_view> switches = {},
                                 std::span<const std::string_view> settings = {}) const;

  /// Merges the sources, in order of precedence: the command line, `environment`, `ini` if there is
  /// one, and the defaults. `environment` has the form of environ, "NAME=value" with names
  /// SHARDSTREAM_SECTION_NAME. Variables that control tests are ignored: SHARDSTREAM_TEST_* and
  /// SHARDSTREAM_REQUIRE_GPU.
  Options resolve(const CommandLine& command_line, const char* const* environment,
                  const std::optional<std::filesystem::path>& ini) const;

  /// The text of --help for the `wanted` options, one block per section. `wanted` lists keys and
  /// whole sections; if it is empty, the text has all options.
  std::string help(std::span<const std::string_view> wanted = {}) const;

  const std::vector<OptionRow>& rows() const { return rows_; }

 private:
  std::vector<OptionRow> rows_;
};

/// Whether the INI file has a line [section]; false if it cannot be read.
bool has_section(const std::filesystem::path& ini, std::string_view section);

}  // namespace shardstream
