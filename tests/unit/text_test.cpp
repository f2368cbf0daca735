#include "core/text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace shardstream {
namespace {

TEST(Printable, KeepsTextOfAnyLanguage) {
  for (const std::string text : {"", "a = 'b'; \\x", "Größe", "données", "\u00a0", "海", "𝛴"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, EscapesEveryOtherByte) {
  struct Case {
    std::string text, shown;
  };
  using namespace std::string_literals;
  for (const auto& [text, shown] : std::initializer_list<Case>{
           {"a\0b"s, R"(a\x00b)"},
           {"\x1b[31m\t\r\n\x7f", R"(\x1b[31m\x09\x0d\x0a\x7f)"},
           {"\xc2\x9b", R"(\xc2\x9b)"},                  // a control character, U+009B
           {"\xc3", R"(\xc3)"},                          // incomplete
           {"\xc3(", R"(\xc3()"},                        // not continued
           {"\xbc", R"(\xbc)"},                          // no first byte
           {"\xc0\xaf", R"(\xc0\xaf)"},                  // a longer form of '/'
           {"\xe0\x9f\xbf", R"(\xe0\x9f\xbf)"},          // a longer form of U+07FF
           {"\xf0\x8f\xbf\xbf", R"(\xf0\x8f\xbf\xbf)"},  // a longer form of U+FFFF
           {"\xed\xa0\x80", R"(\xed\xa0\x80)"},          // a surrogate
           {"\xf4\x90\x80\x80", R"(\xf4\x90\x80\x80)"},  // beyond U+10FFFF
           {"\xff", R"(\xff)"},
       }) {
    EXPECT_EQ(printable(text), shown);
  }
}

TEST(JoinFirst, CountsTheItemsThatItLeavesOut) {
  const std::vector<std::string> items = {"a", "b", "c"};
  EXPECT_EQ(join_first(items, 3, ", "), "a, b, c");
  EXPECT_EQ(join_first(items, 1, ", "), "a and 2 more");
  EXPECT_EQ(join_first(std::vector<std::string>{}, 1, ", "), "");
}

TEST(Excerpt, QuotesShortTextWhole) {
  EXPECT_EQ(excerpt(""), "''");
  EXPECT_EQ(excerpt("64M"), "'64M'");
  EXPECT_EQ(excerpt(std::string(80, 'x')), "'" + std::string(80, 'x') + "'");
}

TEST(Excerpt, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(excerpt(std::string(81, 'x')), "'" + std::string(80, 'x') + "'... (81 bytes)");
  EXPECT_EQ(excerpt(std::string(79, 'x') + "ö"), "'" + std::string(79, 'x') + "'... (81 bytes)");
  EXPECT_EQ(excerpt(std::string(77, 'x') + "𝛴"), "'" + std::string(77, 'x') + "'... (81 bytes)");
  const std::string rotten(1000, '\x80');  // no character begins in it
  EXPECT_TRUE(excerpt(rotten).ends_with("\\x80'... (1000 bytes)"));
  EXPECT_LT(excerpt(rotten).size(), 400u);
}

TEST(Text, JoinsWordsAsChoices) {
  EXPECT_EQ(join_or({}), "");
  EXPECT_EQ(join_or({"a"}), "a");
  EXPECT_EQ(join_or({"a", "b"}), "a or b");
  EXPECT_EQ(join_or({"a", "b", "c"}), "a, b or c");
}

TEST(ListItems, AreDividedAtCommasOutsideParentheses) {
  using Items = std::vector<std::string_view>;
  EXPECT_EQ(list_items("a, b"), (Items{"a", "b"}));
  EXPECT_EQ(list_items("a,f( b , (c,d)),e"), (Items{"a", "f( b , (c,d))", "e"}));
  EXPECT_EQ(list_items("a,,b,"), (Items{"a", "", "b", ""}));
  EXPECT_EQ(list_items("a),b"), (Items{"a)", "b"}));
  EXPECT_EQ(list_items("f(a,b"), (Items{"f(a,b"}));
}

TEST(Nearest, FindsATypingError) {
  const std::vector<std::string_view> words = {"sum", "min", "max", "variance", "host"};
  EXPECT_EQ(nearest("sum", words), "sum");
  EXPECT_EQ(nearest("smu", words), "sum");  // two neighbours swapped are one edit
  EXPECT_EQ(nearest("mx", words), "max");
  EXPECT_EQ(nearest("varience", words), "variance");
  EXPECT_EQ(nearest("hots", words), "host");
  EXPECT_EQ(nearest("MAX", words), "max");
}

TEST(Nearest, IgnoresOtherWords) {
  const std::vector<std::string_view> words = {"sum", "min", "max"};
  EXPECT_EQ(nearest("cuda", words), "");
  EXPECT_EQ(nearest("x", words), "");
  EXPECT_EQ(nearest("", words), "");
  EXPECT_EQ(nearest("sum", {}), "");
}

TEST(MeantChoice, KnowsNamesOfOtherPrograms) {
  const std::vector<std::string_view> words = {"mean", "stddev", "variance", "max"};
  constexpr std::string_view other_names = "std=stddev sd=stddev avg=mean";
  EXPECT_EQ(meant_choice("std", words, other_names), "stddev");
  EXPECT_EQ(meant_choice("avg", words, other_names), "mean");
  EXPECT_EQ(meant_choice("avg", words, ""), "");
  EXPECT_EQ(meant_choice("meen", words, other_names), "mean");
}

TEST(Nearest, ChoosesTheNearest) {
  EXPECT_EQ(nearest("reduce.opps", {"reduce.op", "reduce.ops"}), "reduce.ops");
}

}  // namespace
}  // namespace shardstream
