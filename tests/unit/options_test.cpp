// Options: the command line, precedence, values, declarations and help.
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <sstream>

#include "core/error.hpp"
#include "support/errors.hpp"
#include "support/option_rows.hpp"

namespace shardstream {
namespace {

using test::error_of;
using test::names;

// ---------------------------------------------------------------- command line

TEST(CommandLine, AcceptsEveryForm) {
  const CommandLine line =
      parse({"run", "--reduce.ops", "sum,min", "--device.backend=host", "-o", "a.h5", "reduce"});
  EXPECT_EQ(line.words, (Words{"run", "reduce"}));
  ASSERT_EQ(line.values.size(), 3u);
  EXPECT_EQ(line.values.at("reduce.ops"), "sum,min");
  EXPECT_EQ(line.values.at("device.backend"), "host");
  EXPECT_EQ(line.values.at("output.file"), "a.h5");
  EXPECT_EQ(parse({"-oa.h5"}).values.at("output.file"), "a.h5");
  EXPECT_EQ(parse({"--output.note=a=b=c"}).values.at("output.note"), "a=b=c");
  EXPECT_EQ(parse({"--output.note", ""}).values.at("output.note"), "");
  EXPECT_EQ(parse({"--output.file", "-"}).values.at("output.file"), "-");
}

TEST(CommandLine, TakesNegativeNumbersAsValues) {
  EXPECT_EQ(parse({"--output.note", "-5"}).values.at("output.note"), "-5");
  EXPECT_EQ(parse({"--output.note", "-.5"}).values.at("output.note"), "-.5");
  EXPECT_EQ(parse({"--output.note=-1e9"}).values.at("output.note"), "-1e9");
  EXPECT_EQ(parse({"--output.note=--x"}).values.at("output.note"), "--x");
}

TEST(CommandLine, TreatsEverythingAfterTwoDashesAsWords) {
  EXPECT_EQ(parse({"a", "--", "--reduce.ops", "-o", "--=x"}).words,
            (Words{"a", "--reduce.ops", "-o", "--=x"}));
  EXPECT_TRUE(parse({}).words.empty());
}

TEST(CommandLine, ErrorsNameTheOptionAndWhatItTakes) {
  struct Bad {
    Words arguments;
    Words named;
  };
  for (const Bad& bad : std::vector<Bad>{
           {{"--reduce.opps", "sum"}, {"--reduce.opps", "--reduce.ops"}},
           {{"--reduce.opps=sum"}, {"--reduce.opps", "--reduce.ops"}},
           {{"-reduce.ops", "sum"}, {"'-reduce.ops'", "--reduce.ops"}},
           {{"--ops", "sum"}, {"--ops", "--reduce.ops"}},
           {{"--device.back", "host"}, {"--device.back"}},  // no abbreviations
           {{"--REDUCE.OPS", "sum"}, {"--REDUCE.OPS", "--reduce.ops"}},
           {{"--entirely.different"}, {"--entirely.different"}},
           {{"-x"}, {"-x"}},
           {{"-5"}, {"-5"}},
           {{"--=x"}, {"'--'"}},
           {{"--reduce.ops"}, {"--reduce.ops", "sum", "min", "max", "mean"}},
           {{"--reduce.ops="}, {"--reduce.ops", "sum"}},
           {{"--pipeline.slots"}, {"--pipeline.slots", "1..4096", "auto"}},
           {{"--pipeline.slot-size"}, {"--pipeline.slot-size", "4KiB..1GiB"}},
           {{"--comm.timeout"}, {"--comm.timeout", "1s"}},
           {{"--verify.samples"}, {"--verify.samples", "1e6"}},
           {{"--device.backend"}, {"--device.backend", "cuda", "host", "auto"}},
           {{"--output.note"}, {"--output.note", "text"}},
           {{"-o"}, {"--output.file", "text"}},
           {{"-o", "--reduce.ops", "sum"}, {"-o", "text"}},
       }) {
    EXPECT_TRUE(names(error_of([&] { parse(bad.arguments); }), bad.named)) << bad.arguments[0];
  }
}

TEST(CommandLine, SuggestsOnlySimilarOptions) {
  const std::string message = error_of([] { parse({"--entirely.different"}); });
  EXPECT_EQ(message.find("--"), message.rfind("--")) << message;
}

// ---------------------------------------------------------------- precedence and readers

TEST(Resolve, UsesTheSourceWithPrecedence) {
  const IniFile ini("[reduce]\nops = max\nmissing = ignore\n[verify]\nsamples = 3\n");
  const Options options =
      resolve({"--reduce.ops", "sum"},
              {"SHARDSTREAM_REDUCE_OPS=min", "SHARDSTREAM_REDUCE_MISSING=error"}, ini.path());
  EXPECT_EQ(options.text("reduce.ops"), "sum");
  EXPECT_EQ(options.all().at("reduce.ops").origin, "command line");
  EXPECT_EQ(options.text("reduce.missing"), "error");
  EXPECT_EQ(options.all().at("reduce.missing").origin, "environment");
  EXPECT_EQ(options.count("verify.samples"), 3u);
  EXPECT_EQ(options.all().at("verify.samples").origin, ini.at(5));
  EXPECT_FALSE(options.is_default("verify.samples"));
  EXPECT_TRUE(options.is_default("comm.timeout"));
  EXPECT_EQ(options.all().at("comm.timeout").origin, "default");
  EXPECT_EQ(options.all().size(), pipeline_rows.size() + other_rows.size());
}

TEST(Resolve, WorksWithoutEnvironmentAndFile) {
  const Options options = option_table().resolve({}, nullptr, {});
  EXPECT_EQ(options.text("output.file"), "{workload}.h5");
  EXPECT_EQ(options.text("output.note"), "");
}

TEST(Resolve, ReadsEveryKind) {
  const Options options =
      resolve({"--pipeline.slots", "2^4", "--pipeline.slot-size", "1.5MiB", "--comm.timeout",
               "2min", "--reduce.ops", "sum, mean", "--verify.enabled=off"});
  EXPECT_EQ(options.count("pipeline.slots"), 16u);
  EXPECT_EQ(options.bytes("pipeline.slot-size"), 1572864u);
  EXPECT_EQ(options.seconds("comm.timeout"), 120.0);
  EXPECT_EQ(options.list("reduce.ops"), (Words{"sum", "mean"}));
  EXPECT_FALSE(options.flag("verify.enabled"));
  EXPECT_FALSE(options.is_auto("pipeline.slots"));
  EXPECT_TRUE(options.is_auto("device.backend"));
  EXPECT_TRUE(options.is_auto("scale.ranks"));
}

TEST(Resolve, ReadsEveryFlagWord) {
  for (const char* word : {"true", "yes", "on", "1"}) {
    EXPECT_TRUE(resolve({std::string("--verify.enabled=") + word}).flag("verify.enabled")) << word;
  }
  for (const char* word : {"false", "no", "off", "0"}) {
    EXPECT_FALSE(resolve({std::string("--verify.enabled=") + word}).flag("verify.enabled")) << word;
  }
}

TEST(CommandLine, FlagsMayStandAlone) {
  const auto flag = [](const Words& words) { return resolve(words).flag("verify.enabled"); };
  EXPECT_TRUE(flag({"--verify.enabled"}));
  EXPECT_TRUE(flag({"--verify.enabled", "-o", "x"}));
  EXPECT_TRUE(flag({"--verify.enabled", "--reduce.ops", "sum"}));
  EXPECT_TRUE(flag({"--verify.enabled", "true"}));
  EXPECT_FALSE(flag({"--verify.enabled", "false"}));
  // Only true and false are values of a flag; any other word is a word of the command.
  for (const char* word : {"yes", "0", "gram", "a.ini"}) {
    const CommandLine line = parse({"--verify.enabled", word});
    EXPECT_EQ(line.values.at("verify.enabled"), "true") << word;
    EXPECT_EQ(line.words, Words{word});
  }
}

TEST(CommandLine, TheLastOfSeveralValuesCounts) {
  EXPECT_EQ(resolve({"--reduce.ops", "sum", "--reduce.ops", "min"}).text("reduce.ops"), "min");
  EXPECT_EQ(resolve({"-oa", "--output.file=b"}).text("output.file"), "b");
  EXPECT_FALSE(resolve({"--verify.enabled", "--verify.enabled=no"}).flag("verify.enabled"));
}

TEST(Resolve, AcceptsTheBounds) {
  EXPECT_EQ(resolve({"--pipeline.slots", "1"}).count("pipeline.slots"), 1u);
  EXPECT_EQ(resolve({"--pipeline.slots", "4096"}).count("pipeline.slots"), 4096u);
  EXPECT_EQ(resolve({"--comm.timeout", "1000ms"}).seconds("comm.timeout"), 1.0);
}

TEST(Options, UnknownKeysAndAutoNumbersAreDefects) {
  const Options options = resolve({});
  EXPECT_THROW(options.text("no.such"), ContractError);
  EXPECT_THROW(options.count("pipeline.slots"), ContractError);  // it is auto
}

TEST(Resolve, ErrorsNameKeyValueAndRange) {
  struct Bad {
    std::string key;
    std::string value;
    Words named = {};
  };
  for (const Bad& bad : std::vector<Bad>{
           {"pipeline.slots", "0", {"'0'", "1..4096", "auto"}},
           {"pipeline.slots", "4097", {"'4097'", "4096"}},
           {"pipeline.slots", "-5", {"'-5'", "1..4096"}},
           {"pipeline.slots", "1.5", {"'1.5'", "1..4096"}},
           {"pipeline.slots", "automatic", {"'automatic'", "1..4096"}},
           {"pipeline.slots", "", {"''", "1..4096"}},
           {"verify.samples", "auto", {"'auto'", "1e6"}},
           {"verify.samples", "1000001", {"'1000001'", "1e6"}},
           {"verify.factor", "0,5", {"'0,5'", "0.5..1e3"}},
           {"verify.factor", "-2", {"'-2'", "0.5..1e3"}},
           {"verify.seed", "x", {"'x'", "2^24", "auto"}},
           {"pipeline.slot-size", "64M", {"'64M'", "64MB", "64000000", "64MiB", "67108864"}},
           {"pipeline.slot-size", "4095", {"'4095'", "4KiB..1GiB"}},
           {"pipeline.slot-size", "2GiB", {"'2GiB'", "1GiB"}},
           {"comm.timeout", "30", {"'30'", "unit"}},
           {"comm.timeout", "999ms", {"'999ms'", "1s"}},
           {"device.backend", "CUDA", {"'CUDA'", "cuda", "host", "auto"}},
           {"device.backend", "aut", {"'aut'", "auto"}},
           {"device.backend", "tpu-v4", {"'tpu-v4'", "cuda", "host", "auto"}},
           {"reduce.missing", "none", {"'none'", "propagate", "ignore", "error"}},
           {"reduce.ops", "sum,mx", {"'mx'", "max"}},
           {"reduce.ops", "", {"empty"}},
           {"reduce.ops", " ", {"empty"}},
           {"reduce.ops", "sum,,min", {"'sum,,min'", "empty"}},
           {"reduce.ops", "sum,", {"'sum,'", "empty"}},
           {"reduce.ops", "sum,min,sum", {"'sum'", "twice"}},
           {"scale.ranks", "1,auto", {"'auto'", "1..64"}},
           {"scale.ranks", "1,128", {"'128'", "1..64"}},
           {"scale.ranks", "4,2^2", {"'2^2'", "twice"}},
           {"scale.names", "a,b, a", {"'a'", "twice"}},
       }) {
    const std::string message = error_of([&] { resolve({"--" + bad.key, bad.value}); });
    EXPECT_TRUE(names(message, bad.named)) << bad.key;
    EXPECT_TRUE(names(message, "--" + bad.key)) << bad.key;
  }
}

TEST(Resolve, NamesTheOriginOfABadValue) {
  EXPECT_TRUE(names(error_of([] { resolve({}, {"SHARDSTREAM_PIPELINE_SLOTS=0"}); }),
                    "pipeline.slots", "SHARDSTREAM_PIPELINE_SLOTS", "'0'"));
  const IniFile ini("\n\n[pipeline]\nslots = 0\n");
  EXPECT_TRUE(
      names(error_of([&] { resolve({}, {}, ini.path()); }), ini.at(4), "pipeline.slots", "'0'"));
  EXPECT_NO_THROW(
      resolve({"--pipeline.slots", "2"}, {}, ini.path()));  // not effective, so not checked
}

TEST(Resolve, RejectsUnknownKeys) {
  CommandLine line;
  line.values["reduce.opps"] = "sum";
  EXPECT_TRUE(names(error_of([&] { option_table().resolve(line, nullptr, {}); }), "reduce.opps",
                    "--reduce.ops"));
}

// ---------------------------------------------------------------- declarations

TEST(Switches, AreWordsWithoutValues) {
  constexpr std::array<std::string_view, 2> switches = {"json", "measure"};
  const auto parse = [&](const Words& words) {
    return option_table().parse_command_line(words, switches);
  };
  const CommandLine line = parse({"--json", "a.ini", "--output.file", "b.h5"});
  EXPECT_TRUE(line.switches.contains("json"));
  EXPECT_FALSE(line.switches.contains("measure"));
  EXPECT_EQ(line.words, Words{"a.ini"});
  EXPECT_EQ(line.values.at("output.file"), "b.h5");
  EXPECT_TRUE(parse({"-o", "b.h5", "--measure", "--json"}).switches.contains("measure"));
  EXPECT_EQ(parse({"--json", "trueish", "true"}).words, (Words{"trueish", "true"}));

  const auto error = [&](const Words& words) { return error_of([&] { parse(words); }); };
  EXPECT_TRUE(names(error({"--json=true"}), "--json", "'true'"));
  EXPECT_TRUE(names(error({"--json", "off", "more"}), "--json", "'off'"));
  EXPECT_TRUE(names(error({"--mesure"}), "--mesure", "--measure"));
  EXPECT_TRUE(names(error({"--redce.ops", "sum"}), "--redce.ops", "--reduce.ops"));
  EXPECT_TRUE(names(error({"--jso"}), "--jso"));
  // A switch is not the value of the previous option.
  EXPECT_TRUE(names(error({"-o", "--json"}), "-o", "text"));
  EXPECT_TRUE(names(error({"--output.file", "--json"}), "--output.file", "text"));
  // Other commands do not know it.
  EXPECT_TRUE(names(error_of([] { option_table().parse_command_line({"--json"}); }), "--json"));
}

TEST(Settings, AreWordsWithValues) {
  constexpr std::array<std::string_view, 1> switches = {"dry-run"};
  constexpr std::array<std::string_view, 2> settings = {"ranks", "rates"};
  const auto parse = [&](const Words& words) {
    return option_table().parse_command_line(words, switches, settings);
  };
  const CommandLine line = parse({"--ranks", "64", "--dry-run", "gemm", "--rates=a.h5"});
  EXPECT_EQ(line.settings.at("ranks"), "64");
  EXPECT_EQ(line.settings.at("rates"), "a.h5");
  EXPECT_TRUE(line.switches.contains("dry-run"));
  EXPECT_EQ(line.words, Words{"gemm"});
  EXPECT_TRUE(line.values.empty());

  const auto error = [&](const Words& words) { return error_of([&] { parse(words); }); };
  EXPECT_TRUE(names(error({"--ranks"}), "--ranks", "text"));
  EXPECT_TRUE(names(error({"--ranks", "--dry-run"}), "--ranks", "text"));
  EXPECT_EQ(parse({"--ranks", "1", "--ranks", "2"}).settings.at("ranks"), "2");
  EXPECT_TRUE(names(error({"--rank", "1"}), "--rank", "--ranks"));
  EXPECT_TRUE(names(error({"--dryrun"}), "--dryrun", "--dry-run"));
}

TEST(OptionTable, RejectsBadDeclarations) {
  using enum OptionKind;
  for (const OptionRow& row : {
           OptionRow{"plain", text, "", "", "No section."},
           OptionRow{".name", text, "", "", "No section."},
           OptionRow{"a.", text, "", "", "No name."},
           OptionRow{"a.b", count, "0", "1..4", "A default out of its range."},
           OptionRow{"a.b", count, "", "", "No default."},
           OptionRow{"a.b", count, "auto", "1-4", "A range that is none."},
           OptionRow{"a.b", count, "auto", "auto|x..4", "A bound that is none."},
           OptionRow{"a.b", choice, "x", "y|z", "A default that is no choice."},
           OptionRow{"a.b", choice, "auto", "", "No choices."},
           OptionRow{"a.b", list, "", "y|z", "An empty list."},
           OptionRow{"a.b", flag, "", "", "No default."},
           OptionRow{"a.b", duration, "3", "", "No unit."},
       }) {
    EXPECT_THROW(OptionTable{std::span(&row, 1)}, ContractError) << row.key << ": " << row.sentence;
  }
}

TEST(OptionTable, MayDifferForOneCommand) {
  using enum OptionKind;
  constexpr std::array rows = {
      OptionRow{"reduce.ops", choice, "max", "max|min", "Which end."},
      OptionRow{"output.file", text, "", "FILE", "Must be given."},
  };
  const OptionTable table = option_table().with(rows);
  ASSERT_EQ(table.rows().size(), option_table().rows().size());
  const Options options = table.resolve({}, nullptr, {});
  EXPECT_EQ(options.text("reduce.ops"), "max");
  EXPECT_EQ(options.text("output.file"), "");
  EXPECT_EQ(options.text("reduce.missing"), "auto");
  EXPECT_TRUE(names(error_of([&] {
                      table.resolve(table.parse_command_line({"--reduce.ops", "sum"}), nullptr, {});
                    }),
                    "--reduce.ops", "'sum'", "max", "min"));
  EXPECT_TRUE(names(table.help(), "Which end. (default: max; one of max, min)"));
  EXPECT_FALSE(names(table.help(), "The reductions"));

  const OptionRow unknown{"reduce.opps", text, "", "", "Nobody declares it."};
  EXPECT_THROW((void)option_table().with({&unknown, 1}), ContractError);
  const OptionRow bad{"reduce.ops", choice, "sum", "max|min", "A default that is no choice."};
  EXPECT_THROW((void)option_table().with({&bad, 1}), ContractError);
}

TEST(OptionTable, RejectsTwoRowsOfOneName) {
  using enum OptionKind;
  const std::array same = {OptionRow{"a.b", text, "", "", ""}, OptionRow{"a.b", flag, "1", "", ""}};
  EXPECT_THROW(OptionTable{same}, ContractError);
  const std::array one_variable = {OptionRow{"a.b-c", text, "", "", ""},
                                   OptionRow{"a.b.c", text, "", "", ""}};
  EXPECT_THROW(OptionTable{one_variable}, ContractError);
}

// ---------------------------------------------------------------- help

// The last line has exactly 100 characters.
TEST(Help, WritesOneSection) {
  constexpr std::array wanted = {std::string_view("reduce")};
  EXPECT_EQ(
      option_table().help(wanted),
      "reduce:\n"
      "  --reduce.ops LIST           The reductions; all of them are computed in one pass over"
      " the data,\n"
      "                              and each of them is verified by itself. (default: sum; one"
      " or more of\n"
      "                              sum, min, max, mean)\n"
      "  --reduce.missing CHOICE     Use of NaNs. (default: auto; one of ignore, propagate, error,"
      " or auto)\n");
}

TEST(Help, WritesSingleOptionsToo) {
  constexpr std::array<std::string_view, 2> wanted = {"reduce.missing", "output"};
  const std::string help = option_table().help(wanted);
  EXPECT_TRUE(names(help, "--reduce.missing "));
  EXPECT_FALSE(names(help, "--reduce.ops "));
  EXPECT_TRUE(names(help, "--output.file "));
  EXPECT_TRUE(names(help, "--output.note "));
}

TEST(Help, ListsEveryOptionWithinItsWidth) {
  const OptionTable table = option_table();
  const std::string help = table.help();
  for (const OptionRow& row : table.rows()) {
    EXPECT_TRUE(names(help, "--" + std::string(row.key) + " ")) << row.key;
  }
  EXPECT_TRUE(names(help, "-o, --output.file TEXT"));
  EXPECT_TRUE(names(help, "(default: none)"));  // output.note
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100u) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
}

TEST(Help, RejectsAnUnknownSection) {
  constexpr std::array wanted = {std::string_view("reduse")};
  EXPECT_TRUE(names(error_of([&] { option_table().help(wanted); }), "reduse", "reduce"));
}

}  // namespace
}  // namespace shardstream
