// Options from environment variables and INI files.
#include <gtest/gtest.h>

#include "support/errors.hpp"
#include "support/option_rows.hpp"

namespace shardstream {
namespace {

using test::error_of;
using test::names;

// ---------------------------------------------------------------- environment

TEST(Environment, HasAVariableForEachKey) {
  const Options options =
      resolve({}, {"SHARDSTREAM_PIPELINE_SLOT_SIZE=8MiB", "PATH=/bin", "XSHARDSTREAM_FOO=1",
                   "SHARDSTREAM=1", "SHARDSTREAM_OUTPUT_NOTE=a=b"});
  EXPECT_EQ(options.bytes("pipeline.slot-size"), 8u << 20);
  EXPECT_EQ(options.text("output.note"), "a=b");
}

TEST(Environment, IgnoresTheVariablesOfTests) {
  EXPECT_NO_THROW(resolve({}, {"SHARDSTREAM_TEST_DROP_WAIT=3"}));
}

TEST(Environment, UnknownNamesAreWarnings) {
  const auto warnings = [](const char* variable) { return resolve({}, {variable}).warnings(); };
  const auto misspelt = warnings("SHARDSTREAM_REDUCE_OPPS=sum");
  ASSERT_EQ(misspelt.size(), 1U);
  EXPECT_TRUE(names(misspelt[0], "SHARDSTREAM_REDUCE_OPPS", "SHARDSTREAM_REDUCE_OPS"));
  const auto lower = warnings("SHARDSTREAM_reduce_ops=sum");
  ASSERT_EQ(lower.size(), 1U);
  EXPECT_TRUE(names(lower[0], "SHARDSTREAM_reduce_ops", "SHARDSTREAM_REDUCE_OPS"));
  const auto of_site = warnings("SHARDSTREAM_ROOT=/opt");
  ASSERT_EQ(of_site.size(), 1U);
  EXPECT_TRUE(names(of_site[0], "SHARDSTREAM_ROOT"));
  EXPECT_EQ(of_site[0].find("SHARDSTREAM_"), of_site[0].rfind("SHARDSTREAM_")) << of_site[0];
  EXPECT_TRUE(warnings("SHARDSTREAM_REDUCE_OPS=sum").empty());
}

// ---------------------------------------------------------------- INI file

TEST(Ini, ReadsCommentsQuotesAndByteOrderMarks) {
  const IniFile ini(
      "\xEF\xBB\xBF# a byte-order mark before this comment\r\n"
      "; and a comment of the other kind\r\n"
      "  ; indented\n"
      "[reduce]   # behind a section\r\n"
      "ops = sum, min ; behind a value\r\n"
      "missing=error\t# behind a tab\n"
      "\n"
      "[ output ]\n"
      "file = data#1;v2.h5\n"
      "note = \"a # b ; c\"   # quoted\n");
  const Options options = resolve({}, {}, ini.path());
  EXPECT_EQ(options.list("reduce.ops"), (Words{"sum", "min"}));
  EXPECT_EQ(options.all().at("reduce.ops").origin, ini.at(5));
  EXPECT_EQ(options.text("reduce.missing"), "error");
  EXPECT_EQ(options.text("output.file"), "data#1;v2.h5");
  EXPECT_EQ(options.text("output.note"), "a # b ; c");
}

TEST(Ini, StripsOnlyMatchingQuotes) {
  struct Case {
    std::string written;
    std::string value;
  };
  for (const auto& [written, value] : std::vector<Case>{
           {"'single'", "single"},
           {"\" padded \"", " padded "},
           {"\"\"", ""},
           {"", ""},
           {"# nothing but a comment", ""},
           {"it's # fine", "it's"},
           {"\"a\" \"b\"", "\"a\" \"b\""},
           {"\"it's\"", "it's"},
           {"a=b", "a=b"},
           {"ends with \"", "ends with \""},
       }) {
    const IniFile ini("[output]\nnote = " + written + "\n");
    EXPECT_EQ(resolve({}, {}, ini.path()).text("output.note"), value) << written;
  }
}

TEST(Ini, AcceptsWholeKeysBeforeAnySection) {
  const IniFile ini("reduce.ops = max");  // and no newline at the end
  EXPECT_EQ(resolve({}, {}, ini.path()).text("reduce.ops"), "max");
}

TEST(Ini, AcceptsASectionInTwoPieces) {
  const IniFile ini("[reduce]\nops = max\n[output]\n[reduce]\nmissing = error\n");
  EXPECT_EQ(resolve({}, {}, ini.path()).text("reduce.missing"), "error");
}

TEST(Ini, ErrorsNameFileAndLine) {
  struct Bad {
    std::string text;
    int line;
    Words named;
  };
  for (const Bad& bad : std::vector<Bad>{
           {"[reduce]\nopps = sum\n", 2, {"'reduce.opps'", "reduce.ops"}},
           {"[reduse]\nops = sum\n", 2, {"'reduse.ops'", "reduce.ops"}},
           {"[reduce]\nop = sum\n", 2, {"'reduce.op'"}},  // prefixes are not guessed
           {"ops = sum\n", 1, {"'ops'", "reduce.ops"}},
           {"[reduce]\n= sum\n", 2, {"'reduce.'"}},
           {"[reduce]\nops#x = sum\n", 2, {"'reduce.ops#x'"}},
           {"[reduce]\n\nops = sum\nops = min\n", 4, {"reduce.ops", "'sum'", "line 3", "'min'"}},
           {"[reduce]\nops = sum\n[x\n", 3, {"'[x'"}},
           {"[]\nops = sum\n", 1, {"'[]'"}},
           {"[reduce]\nops sum#1\n", 2, {"'ops sum#1'"}},
           {"[output]\nnote = \"open # comment\n", 2, {"'\"open # comment'", "quote"}},
           {"[output]\nnote = a\x01\n", 2, {"text"}},
           {"[output]\r\nnote = a\rb\r\n", 2, {"text"}},
           {"\x89HDF\r\n\x1a\n", 1, {"[section]", "key = value"}},
           {"[reduce]\nops = sum,\n", 2, {"reduce.ops", "'sum,'"}},
           {"\xff\x9b[31m\n", 1, {R"('\xff\x9b[31m')"}},
           {"[\xc2\x9b]\nops = sum\n", 2, {R"('\xc2\x9b.ops')"}},
           {"[reduce]\nmissing = \xfe\n", 2, {"reduce.missing", R"('\xfe')"}},
           {std::string(100, '\xfe') + "\n", 1, {"100 bytes"}},
       }) {
    const IniFile ini(bad.text);
    const std::string message = error_of([&] { resolve({}, {}, ini.path()); });
    EXPECT_TRUE(names(message, ini.at(bad.line))) << bad.text;
    EXPECT_TRUE(names(message, bad.named)) << bad.text;
  }
}

TEST(Ini, RejectsADataFile) {
  const IniFile ini("");
  std::filesystem::resize_file(ini.path(), (1 << 20) + 1);
  EXPECT_TRUE(names(error_of([&] { resolve({}, {}, ini.path()); }), ini.path().string(), "INI"));
  std::filesystem::resize_file(ini.path(), 0);
  EXPECT_NO_THROW(resolve({}, {}, ini.path()));
}

TEST(Ini, RejectsAMissingFile) {
  EXPECT_TRUE(names(error_of([] { resolve({}, {}, "/no/such/file.ini"); }), "/no/such/file.ini"));
  EXPECT_TRUE(names(error_of([] { resolve({}, {}, "/tmp"); }), "'/tmp'", "directory"));
}

}  // namespace
}  // namespace shardstream
