// Option values and INI files, through the real rows.
#include <array>
#include <optional>

#include "cli/commands.hpp"
#include "core/calendar.hpp"
#include "core/error.hpp"
#include "core/options.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "fuzz/fuzz.hpp"
#include "io/source/source.hpp"

namespace shardstream::fuzz {
namespace {

constexpr std::array<std::string_view, 51> words = {"0",
                                                    "1",
                                                    "-1",
                                                    "42",
                                                    "2^24",
                                                    "2^31+3",
                                                    "2^64",
                                                    "2^-1",
                                                    "1e9",
                                                    "1.5e6",
                                                    "1e400",
                                                    "1e-400",
                                                    "nan",
                                                    "inf",
                                                    "-0",
                                                    "64MiB",
                                                    "1.5GB",
                                                    "64M",
                                                    "4096B",
                                                    "16EiB",
                                                    "250ms",
                                                    "30s",
                                                    "10min",
                                                    "2h",
                                                    "1e300h",
                                                    "auto",
                                                    "true",
                                                    "off",
                                                    "4096x2048",
                                                    "x",
                                                    "1x",
                                                    "0x10",
                                                    "99999999999999999999",
                                                    "0.1KiB",
                                                    "fp32",
                                                    "f64",
                                                    "uniform",
                                                    "ramp",
                                                    "a,b",
                                                    ",",
                                                    "\xc2\xa0",
                                                    "\xff",
                                                    "[",
                                                    "=",
                                                    "days since ",
                                                    "1950-01-01",
                                                    "T12:30:15.5",
                                                    " -06:00",
                                                    "hours since 1582-10",
                                                    "noleap",
                                                    "day as %Y%m%d.%f"};

std::string any_text(Random& random) {
  std::string text;
  for (std::uint64_t left = random.below(3) + 1; left > 0; --left) text += random.pick(words);
  if (random.one_in(2)) mutate(text, random);
  return text;
}

/// Calls, each of which may end in its own way. The first UsageError is thrown at the end, or one
/// whose message has several lines.
class Attempts {
 public:
  template <class Call>
  void operator()(const Call& call) {
    try {
      call();
    } catch (const UsageError& error) {
      const bool has_lines = std::string_view(error.what()).find('\n') != std::string_view::npos;
      if (!error_ || has_lines) error_ = error;
    }
  }
  void finish() const {
    if (error_) throw *error_;
  }

 private:
  std::optional<UsageError> error_;
};

/// Reads every option as what it is: values that resolve() took must not fail later.
void read_all(const OptionTable& table, const Options& options) {
  for (const OptionRow& row : table.rows()) {
    const std::string_view key = row.key;
    if (options.is_auto(key) || options.text(key).empty()) continue;
    switch (row.kind) {
      case OptionKind::flag:
        options.flag(key);
        break;
      case OptionKind::count:
        options.count(key);
        break;
      case OptionKind::number:
        options.number(key);
        break;
      case OptionKind::size:
        options.bytes(key);
        break;
      case OptionKind::duration:
        options.seconds(key);
        break;
      case OptionKind::list:
        options.list(key);
        break;
      case OptionKind::text:
      case OptionKind::choice:
        break;
    }
  }
}

class Ini final : public Target {
 public:
  std::string_view name() const override { return "ini"; }

  Files make(Random& random) const override {
    std::string text;
    for (std::uint64_t left = random.below(6); left > 0; --left) text += line(random);
    if (!random.one_in(4)) mutate(text, random);
    const OptionRow& row = random.pick(table_.rows());
    std::string variable = "SHARDSTREAM_";
    for (const char c : row.key) variable += c == '.' || c == '-' ? '_' : upper(c);
    std::string word = "--" + std::string(row.key) + "=" + value_of(row, random);
    std::string entry = variable + "=" + value_of(row, random);
    if (random.one_in(3)) mutate(word, random);
    if (random.one_in(3)) mutate(entry, random);
    return {{"case.ini", text}, {"case.env", entry}, {"case.word", word}};
  }

  void run() const override {
    const char* const nothing[] = {nullptr};
    Attempts attempt;
    attempt([&] { read_all(table_, table_.resolve({}, nothing, "case.ini")); });
    attempt([&] {
      const CommandLine line = table_.parse_command_line({read_file("case.word")});
      read_all(table_, table_.resolve(line, nothing, std::nullopt));
    });
    attempt([&] {
      const std::string entry = read_file("case.env");
      const char* const entries[] = {entry.c_str(), nullptr};
      read_all(table_, table_.resolve({}, entries, std::nullopt));
    });
    attempt.finish();
  }

 private:
  static char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

  static std::string value_of(const OptionRow& row, Random& random) {
    const std::string_view usual =
        random.one_in(3) ? row.fallback : row.range.substr(0, row.range.find_first_of("|."));
    return random.one_in(3) ? any_text(random) : std::string(usual);
  }

  std::string line(Random& random) const {
    const OptionRow& row = random.pick(table_.rows());
    const auto dot = row.key.find('.');
    const std::string section(row.key.substr(0, dot)), key(row.key.substr(dot + 1));
    return "[" + section + "]\n" + key + (random.one_in(2) ? " = " : "=") + value_of(row, random) +
           (random.one_in(6) ? " # " + any_text(random) : "") + (random.one_in(9) ? "\r\n" : "\n");
  }

  OptionTable table_ = cli::all_options();
};

class Units final : public Target {
 public:
  std::string_view name() const override { return "units"; }

  Files make(Random& random) const override { return {{"case.txt", any_text(random)}}; }

  void run() const override {
    const std::string text = read_file("case.txt");
    Attempts attempt;
    attempt([&] { format_size(parse_size(text)); });
    attempt([&] { parse_count(text); });
    attempt([&] { parse_number(text); });
    attempt([&] { format_duration(parse_duration(text)); });
    attempt([&] { open_shape(text); });
    attempt([&] { calendar_named(text); });
    for (const Calendar calendar : {Calendar::standard, Calendar::days_360, Calendar::julian}) {
      attempt([&] { TimeUnit(text, calendar).date(-123456.7); });
    }
    nearest(text, {"uniform", "ramp", text});
    split(text, 'x');
    attempt.finish();
  }

 private:
  void open_shape(const std::string& text) const {
    const char* const nothing[] = {nullptr};
    const CommandLine line = table_.parse_command_line({"--input.shape", text});
    const auto source = io::open_source(table_.resolve(line, nothing, std::nullopt));
    source->coordinates(source->count() - 1);
  }

  OptionTable table_ = cli::all_options();
};

}  // namespace

std::unique_ptr<Target> ini_target() {
  return std::make_unique<Ini>();
}

std::unique_ptr<Target> units_target() {
  return std::make_unique<Units>();
}

}  // namespace shardstream::fuzz
