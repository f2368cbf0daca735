// The program's options. A room that uses an option declares one OptionRow for it; help, the
// environment's names, the INI file and the `/config` of a result all come from that row.
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
  text,      ///< taken as it is
  flag,      ///< true|false (also yes|no, on|off, 1|0)
  choice,    ///< one of `range`, "a|b|c"
  list,      ///< comma-separated; each one of `range` if that is given
  count,     ///< 42, 2^24, 1e9: a whole number
  number,    ///< 0.5, -2, 1e-3: a finite real number
  size,      ///< 64MiB, 1.5GB, 4096B or 4096: bytes
  duration,  ///< 30s, 10min, 250ms, 2h: seconds
};

/// All that is said about one option. `key` is "section.name".
struct OptionRow {
  std::string_view key;
  OptionKind kind;
  /// The default, as a user would type it; empty for a choice, as for a text: there is none.
  std::string_view fallback;
  /// "1..4096" or "1..": the least and the most, written as a user would; "a|b|c" for choices;
  /// empty for anything. A leading "auto|" admits the word auto beside them.
  std::string_view range;
  std::string_view sentence;  ///< one sentence for --help
};

/// The effective values of all options: from the command line, else the environment, else the INI
/// file, else the default. Every value has been checked against its row's kind and range.
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

  /// Every key with its value, in the order of the keys.
  const std::map<std::string, Value, std::less<>>& all() const { return values_; }

  /// A sentence for each SHARDSTREAM_* variable that no option has, in the environment's order.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  friend class OptionTable;
  std::map<std::string, Value, std::less<>> values_;
  std::vector<std::string> warnings_;
};

/// What stood on the command line: option values by key, a command's own switches and settings, and
/// the words that are no option.
struct CommandLine {
  std::map<std::string, std::string, std::less<>> values;
  std::set<std::string, std::less<>> switches;
  std::map<std::string, std::string, std::less<>> settings;
  std::vector<std::string> words;
};

/// The rows of every room, and the three readers that fill them. All readers throw UsageError with
/// one sentence: an unknown key names the nearest known one, a bad value names its row's range. An
/// unknown environment variable is a warning only.
class OptionTable {
 public:
  explicit OptionTable(const std::vector<std::span<const OptionRow>>& rooms);
  explicit OptionTable(std::initializer_list<std::span<const OptionRow>> rooms)
      : OptionTable(std::vector(rooms)) {}

  /// This table with `rows` in the places of those with the same keys: what an option is to one
  /// command, where that differs.
  OptionTable with(std::span<const OptionRow> rows) const;

  /// `--key value`, `--key=value` and `-o FILE` (output.file); no abbreviations. A flag may stand
  /// alone: it takes the next word only if that is true or false. If an option is given twice, the
  /// last value counts. `switches` are
  /// words of the command alone that take no value, "json" for --json, and `settings` such that
  /// take one. They say how to show, not what to do, so no environment variable, INI file or result
  /// knows them.
  CommandLine parse_command_line(const std::vector<std::string>& arguments,
                                 std::span<const std::string_view> switches = {},
                                 std::span<const std::string_view> settings = {}) const;

  /// Merges the sources, strongest first: command line, `environment` (as environ: "NAME=value",
  /// SHARDSTREAM_SECTION_NAME; those that steer tests, SHARDSTREAM_TEST_* and
  /// SHARDSTREAM_REQUIRE_GPU, are left alone), `ini` if one is named, defaults.
  Options resolve(const CommandLine& command_line, const char* const* environment,
                  const std::optional<std::filesystem::path>& ini) const;

  /// The options that are `wanted`, by key or whole sections, for --help, one block a section; all
  /// if nothing is named.
  std::string help(std::span<const std::string_view> wanted = {}) const;

  const std::vector<OptionRow>& rows() const { return rows_; }

 private:
  std::vector<OptionRow> rows_;
};

}  // namespace shardstream
