#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "report/page/figures/estimates.hpp"
#include "report/page/figures/figure.hpp"
#include "report/page/gnuplot.hpp"
#include "report/page/html.hpp"

namespace shardstream::report::page {
namespace {

TEST(EscapedText, HasNoMarkup) {
  EXPECT_EQ(escape("<script>\"a\" & 'b'</script>"),
            "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/script&gt;");
}

TEST(EscapedText, IsValidUtf8) {
  constexpr std::string_view replacement = "\xef\xbf\xbd";
  EXPECT_EQ(escape("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  for (const std::string_view bad : {"\xff", "\xc3", "\xc0\xaf", "\xe2\x82", "\xed\xa0\x80",
                                     "\xf4\x90\x80\x80", "\x01", "\x7f", "\xe2\x80\xae"}) {
    const std::string text = escape(bad);
    EXPECT_TRUE(text.starts_with(replacement)) << text;
    EXPECT_EQ(text.size() % replacement.size(), 0U) << text;
  }
}

TEST(Sentences, HaveCodeForWordsBetweenBackTicks) {
  EXPECT_EQ(with_code("`a < b` and (`c`), `d`."),
            "<code>a &lt; b</code> and (<code>c</code>), <code>d</code>.");
  EXPECT_EQ(without_ticks("times of `copied`, for `mapped`"), "times of copied, for mapped");
  for (const char* const other : {"`", "a `b", "a`b`c", "``", "it`s 5` wide"}) {
    EXPECT_EQ(with_code(other), other);
    EXPECT_EQ(without_ticks(other), other);
  }
  const std::string html = to_html(Grid{{"remark"}, {{"half of `copied`"}}});
  EXPECT_NE(html.find("<td>half of <code>copied</code></td>"), std::string::npos) << html;
}

TEST(Grid, AlignsColumnsOfNumbers) {
  const std::string html = to_html(Grid{{"a", "b"}, {{"1", "x"}, {"-", "2"}}});
  EXPECT_NE(html.find("<td class=\"n\">1</td><td>x</td>"), std::string::npos) << html;
}

TEST(InlinedPicture, HasPrefixesAndNoTitles) {
  const std::string svg = inlined(
      "<svg ><title>x</title><defs><circle id='gpDot'/></defs><use xlink:href='#gpDot'/>"
      "<rect fill = 'url(#gpPat1)'/><g fill=\"none\" color=\"black\">\n</g>\n</svg>",
      "s1-");
  EXPECT_NE(svg.find("id='s1-gpDot'"), std::string::npos) << svg;
  EXPECT_NE(svg.find("href='#s1-gpDot'"), std::string::npos) << svg;
  EXPECT_NE(svg.find("url(#s1-gpPat1)"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("<title>"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("<g "), std::string::npos) << svg;
}

TEST(Drawing, ContinuesAfterAFailedScript) {
  Script good;
  good.plot({{1, 2}, {2, 3}}, "using 1:2 with lines");
  const Drawing drawing = draw({good.text(), "set yrange [0:", good.text()});
  if (drawing.why_not.find("not installed") != std::string::npos) GTEST_SKIP() << drawing.why_not;
  EXPECT_NE(drawing.pictures[0], "");
  EXPECT_EQ(drawing.pictures[1], "");
  EXPECT_EQ(drawing.pictures[2], drawing.pictures[0]);
  EXPECT_NE(drawing.why_not, "");
}

TEST(Script, WithoutRowsDrawsNothing) {
  Script script;
  script.plot({}, "using 1:2 with lines");
  EXPECT_TRUE(script.is_empty());
  EXPECT_EQ(script.text(), "");
}

TEST(LogTics, AreFewForAnyRange) {
  for (const double hi : {1.1, 2.0, 10.0, 1e3, 1e9}) {
    const std::string tics = log_tics({1, hi});
    const auto count = std::count(tics.begin(), tics.end(), ',') + 1;
    EXPECT_GE(count, hi > 1.5 ? 2 : 1) << tics;
    EXPECT_LE(count, 9) << tics;
  }
}

/// The texts and values of gnuplot's list of tics.
std::vector<std::pair<std::string, double>> parsed(const std::string& list) {
  std::vector<std::pair<std::string, double>> tics;
  for (const std::string_view item : split(list, ',')) {
    const auto end = item.find('\'', 1);
    tics.emplace_back(item.substr(1, end - 1), std::stod(std::string(item.substr(end + 1))));
  }
  return tics;
}

TEST(FittingTics, DoNotTouch) {
  for (const Spacing spacing : {Spacing::linear, Spacing::logarithmic}) {
    for (const double lo : {1e-6, 0.3, 1.0, 900.0, 4e9}) {
      for (const double ratio : {1.5, 3.0, 30.0, 1e3, 1e9}) {
        const Axis axis{spacing, Direction::across, {lo, lo * ratio}, 260};
        const auto tics = parsed(fitting_tics(axis));
        ASSERT_GE(tics.size(), 1U) << lo << ' ' << ratio;
        for (std::size_t i = 1; i < tics.size(); ++i) {
          const double part = spacing == Spacing::linear
                                  ? (tics[i].second - tics[i - 1].second) / (lo * ratio - lo)
                                  : std::log(tics[i].second / tics[i - 1].second) / std::log(ratio);
          EXPECT_GT(part * axis.pixels,
                    (text_width(tics[i].first) + text_width(tics[i - 1].first)) / 2)
              << tics[i - 1].first << ' ' << tics[i].first;
        }
      }
    }
  }
}

TEST(FittingTics, EndOnAxesWithFewNumbers) {
  const Axis axis{Spacing::linear, Direction::across, {1e17, 1e17 + 32}, 260};
  EXPECT_LE(std::ranges::count(fitting_tics(axis), ','), 8);
  EXPECT_EQ(fitting_tics({Spacing::linear, Direction::across, {-1, 1}, 60}), "'-1' -1,'0' 0,'1' 1");
}

TEST(FittingTics, AreTheValuesIfTheseHaveRoom) {
  const Axis axis{Spacing::logarithmic, Direction::across, {0.9, 5000}, 260};
  EXPECT_EQ(fitting_tics(axis, {8, 1, 512, 4096, 8}), "'1' 1,'8' 8,'512' 512,'4096' 4096");
  EXPECT_EQ(fitting_tics(axis, {1, 1.1, 1.2}), fitting_tics(axis));
}

TEST(LongTexts, HaveSeveralLines) {
  const auto fit = [](const std::vector<std::string>& lines, double pixels) {
    return std::ranges::all_of(lines, [&](const auto& line) { return text_width(line) <= pixels; });
  };
  EXPECT_EQ(lines_of("reads, stride 1", 168), std::vector<std::string>{"reads, stride 1"});
  EXPECT_EQ(lines_of("a very long name, 16 MiB of it", 168),
            (std::vector<std::string>{"a very long name,", "16 MiB of it"}));
  EXPECT_EQ(lines_of("NCCL_CUMEM_ENABLE=0", 120),
            (std::vector<std::string>{"NCCL_CUMEM_", "ENABLE=0"}));
  const auto lines = lines_of(std::string(500, 'x') + "\xc3\xa4", 168);
  EXPECT_EQ(lines.size(), 4U);
  EXPECT_TRUE(lines.back().ends_with("\xe2\x80\xa6") && fit(lines, 168)) << lines.back();
  EXPECT_EQ(lines_of("", 168), std::vector<std::string>{""});
}

TEST(Amounts, HavePrefixesAndUnits) {
  EXPECT_EQ(amount_text(512, "B"), "512 B");
  EXPECT_EQ(amount_text(268435456, "B"), "268 MB");
  EXPECT_EQ(amount_text(4294967296, ""), "4.29G");
  EXPECT_EQ(amount_text(1, ""), "1");
}

TEST(DoublingTics, ArePowersOfTwo) {
  EXPECT_EQ(doubling_tics({0.9, 9}), "'1' 1,'2' 2,'4' 4,'8' 8");
  EXPECT_EQ(doubling_tics({0.9, 300}), "'1' 1,'4' 4,'16' 16,'64' 64,'256' 256");
  EXPECT_EQ(doubling_tics({0.95, 2.1}), "'1' 1,'1.25' 1.25,'1.5' 1.5,'1.75' 1.75,'2' 2");
}

TEST(Bars, ALongOneIsCutAndMarked) {
  const std::vector<Bar> bars = {{1, 1, 1, 1}, {2, 1.9, 1.8, 2}, {4, 3.5, 0.001, 1e4}};
  const Extent extent = extent_of(Spacing::logarithmic, {1, 4}, bars);
  EXPECT_GT(extent.lo, 0.5);
  EXPECT_LT(extent.hi, 8);
  const CutBars shown = cut(bars, extent);
  ASSERT_EQ(shown.up.size(), 1);
  ASSERT_EQ(shown.down.size(), 1);
  EXPECT_EQ(shown.up[0], (std::vector<double>{4, extent.hi}));
  EXPECT_EQ(shown.bars[1], (std::vector<double>{2, 1.9, 1.8, 2}));

  const Extent linear = extent_of(Spacing::linear, {0, 1}, {{1, 1, 1, 1}, {2, 0.9, 0.1, 14}});
  EXPECT_EQ(linear.lo, 0);
  EXPECT_LT(linear.hi, 1.5);
}

TEST(Bars, UsualOnesAreWhole) {
  const std::vector<Bar> bars = {{1, 1, 1, 1}, {2, 1.8, 1.6, 2.1}, {4, 3, 2.5, 3.5}};
  for (const Spacing spacing : {Spacing::linear, Spacing::logarithmic}) {
    EXPECT_FALSE(cut(bars, extent_of(spacing, {}, bars)).any());
    EXPECT_FALSE(cut({bars[1]}, extent_of(spacing, {}, {bars[1]})).any());
  }
}

TEST(Numbers, KeepTheirDigits) {
  EXPECT_EQ(number_text(0.96, 3), "0.960");
  EXPECT_EQ(number_text(1980, 4), "1980");
  EXPECT_EQ(number_text(std::nan("")), "-");
  EXPECT_EQ(estimate_text({.value = 1, .interval = study::Interval{0.5, 2}}), "1.00 [0.500, 2.00]");
}

}  // namespace
}  // namespace shardstream::report::page
