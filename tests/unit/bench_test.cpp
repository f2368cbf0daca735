// The catalogue of experiments and the description of their results, without running one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.hpp"
#include "experiments/available.hpp"
#include "experiments/bench.hpp"
#include "experiments/catalogue.hpp"
#include "experiments/code.hpp"
#include "experiments/gpu_pairs.hpp"
#include "experiments/link/overlap_model.hpp"
#include "experiments/memory/levels.hpp"
#include "experiments/slow_ranks.hpp"
#include "report/experiments.hpp"
#include "report/page/code.hpp"
#include "report/page/experiments.hpp"

namespace shardstream::experiments {
namespace {

using Sizes = std::vector<std::uint64_t>;

TEST(Sizes, EndWithTheLargest) {
  EXPECT_EQ(sizes_up_to(4, 64, 4), (Sizes{4, 16, 64}));
  EXPECT_EQ(sizes_up_to(4, 65, 4), (Sizes{4, 16, 64, 65}));
  EXPECT_EQ(sizes_up_to(4, 63, 16), (Sizes{4, 63}));
  EXPECT_EQ(sizes_up_to(4, 4, 2), (Sizes{4}));
  EXPECT_EQ(sizes_up_to(4, 3, 2), (Sizes{3}));
}

TEST(Measurements, HaveColumnsWithDifferentNames) {
  const auto made = [](const char* varied, Rows rows) {
    return Measurements({{varied, ColumnType::integer}}, {"time", ColumnType::real}, rows);
  };
  EXPECT_NO_THROW(made("bytes", Rows::of_calls));
  for (const char* const name :
       {"operations", "bytes", "duration", "arithmetic", "share", "time"}) {
    EXPECT_THROW(made(name, Rows::of_kernels), ContractError) << name;
  }
}

TEST(Measurements, OfKernelsHaveTheirWorkAndTheTimeOfACall) {
  Measurements rows({{"case", ColumnType::text}}, {"rate", ColumnType::real}, Rows::of_kernels);
  rows.add({std::string("copy")}, {1, 1, 1}, 1, "remark",
           {.operations = 2e9, .bytes = 3e6, .arithmetic = "fp32"}, 4e-3);
  const Table table = std::move(rows).table();
  const Row row = table.rows()[0];
  EXPECT_DOUBLE_EQ(row.get<double>("operations"), 2);
  EXPECT_DOUBLE_EQ(row.get<double>("bytes"), 3);
  EXPECT_DOUBLE_EQ(row.get<double>("duration"), 4);
  EXPECT_EQ(row.get<std::string>("arithmetic"), "fp32");
  EXPECT_EQ(row.get<std::string>("remark"), "remark");
}

std::string message_of_choosing(const std::vector<std::string>& words) {
  try {
    static_cast<void>(select(words));
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

TEST(Catalogue, NamesAllUnknownWordsWithTheirNearest) {
  const std::string message = message_of_choosing({"strid", "offset", "banms"});
  for (const char* const word : {"'strid'", "stride", "'banms'", "banks", "--list"}) {
    EXPECT_NE(message.find(word), std::string::npos) << word << ": " << message;
  }
  EXPECT_EQ(message.find("'offset'"), std::string::npos) << message;
}

/// The exit code of naming experiments with `file` as --plain-reads.file; `done` if it is accepted.
ExitCode code_of_naming(const std::vector<std::string>& words, const std::string& file) {
  CommandLine line;
  line.values["plain-reads.file"] = file;
  const char* const environment[] = {nullptr};
  const Options given = OptionTable(options()).resolve(line, environment, std::nullopt);
  try {
    reject_missing_files(given, words);
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("--plain-reads.file"), std::string::npos);
    return error.code();
  }
  return ExitCode::done;
}

TEST(Catalogue, OnlyAnExperimentThatIsNamedItselfMustHaveItsFile) {
  EXPECT_EQ(code_of_naming({"plain-reads"}, ""), ExitCode::usage);
  EXPECT_EQ(code_of_naming({"stride", "storage", "plain-reads"}, ""), ExitCode::usage);
  EXPECT_EQ(code_of_naming({"plain-reads"}, "x.h5:/x"), ExitCode::done);
  EXPECT_EQ(code_of_naming({"storage"}, ""), ExitCode::done);
  EXPECT_EQ(code_of_naming({"all"}, ""), ExitCode::done);
  EXPECT_EQ(code_of_naming({"stride"}, ""), ExitCode::done);
}

/// The message if `key` has `value`; empty if it is accepted.
std::string message_of_setting(std::string_view key, const std::string& value) {
  CommandLine line;
  line.values[std::string(key)] = value;
  const char* const environment[] = {nullptr};
  try {
    static_cast<void>(OptionTable(options()).resolve(line, environment, std::nullopt));
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

TEST(Catalogue, SizesThatNoExperimentCanUseAreRejected) {
  int sizes = 0;
  for (const Experiment* each : all()) {
    for (const OptionRow& row : each->options) {
      if (row.kind != OptionKind::size && row.kind != OptionKind::count) continue;
      if (row.range.starts_with("0..")) continue;  // none is a choice
      ++sizes;
      std::vector<std::string> values = {"0"};
      if (row.kind == OptionKind::size) values.insert(values.end(), {"1", "3"});
      for (const std::string& value : values) {
        const std::string message = message_of_setting(row.key, value);
        EXPECT_NE(message.find(row.key), std::string::npos) << row.key << ' ' << value << message;
        EXPECT_NE(message.find('\'' + value + '\''), std::string::npos) << message;
      }
      std::string_view min = row.range.substr(0, row.range.find(".."));
      if (min.starts_with("auto|")) min.remove_prefix(5);
      EXPECT_EQ(message_of_setting(row.key, std::string(min)), "");
    }
  }
  EXPECT_GE(sizes, 16);
}

TEST(Catalogue, EachRowHasItsOwnNameAndAKnownGroupAndOptionsInItsSection) {
  std::set<std::string_view> names;
  for (const Experiment* each : all()) {
    EXPECT_TRUE(names.insert(each->name).second) << each->name;
    EXPECT_EQ(find(each->name), each);
    EXPECT_EQ(std::ranges::count(groups(), each->group, &Group::name), 1) << each->name;
    for (const OptionRow& row : each->options) {
      EXPECT_TRUE(row.key.starts_with(std::string(each->name) + '.')) << row.key;
    }
  }
  EXPECT_EQ(find("none"), nullptr);
}

TEST(Catalogue, OnlyExperimentsOfAllRanksNeedSeveral) {
  for (const Experiment* each : all()) {
    EXPECT_EQ(each->scope == Scope::all_ranks, each->needs.ranks > 1) << each->name;
    EXPECT_TRUE(each->scope == Scope::each_rank || each->turns == Turns::at_once) << each->name;
  }
}

TEST(Catalogue, SharesOfCeilingsAreExplained) {
  for (const Experiment* each : all()) {
    if (!std::ranges::empty(each->needs.ceilings)) {
      EXPECT_FALSE(each->share.empty()) << each->name;
    }
  }
}

TEST(Catalogue, AShareNamesOnlyItsOwnCeilings) {
  const Ceilings ceilings{.own = {{"device_copy", 4283}, {"link_up", 54.31}}};
  EXPECT_EQ(share_with_ceilings(named("plain-reads"), ceilings),
            "of the rate of uploads (link_up 54.31 GB/s)");
  EXPECT_TRUE(named("spills").needs.has_ceiling("device_copy"));
  EXPECT_EQ(share_with_ceilings(named("spills"), ceilings), named("spills").share);
  EXPECT_EQ(share_with_ceilings(named("l2-window"), ceilings), named("l2-window").share);
}

/// Whether `text` is one sentence that ends with `end`.
bool is_one_sentence(std::string_view text, char end) {
  return text.ends_with(end) && text.find(end) + 1 == text.size() && text.find(". ") == text.npos;
}

TEST(Catalogue, EveryExplanationHasAQuestionWhatVariesAndAnExpectation) {
  for (const Experiment* each : all()) {
    const Explanation& explanation = each->explanation;
    EXPECT_TRUE(is_one_sentence(explanation.question, '?')) << each->name;
    for (const std::string_view text : {explanation.varies, explanation.expectation}) {
      EXPECT_TRUE(text.ends_with('.')) << each->name << ": " << text;
    }
    EXPECT_TRUE(explanation.pitfalls.empty() || explanation.pitfalls.ends_with('.')) << each->name;
  }
}

TEST(Catalogue, EveryExperimentNamesWhatToReadNext) {
  for (const Experiment* each : all()) {
    EXPECT_NE(each->read_on.begin(), each->read_on.end()) << each->name;
    for (const Section& section : each->read_on) {
      EXPECT_EQ(link_of(section).starts_with("https://"), section.guide != Guide::project)
          << each->name;
      EXPECT_FALSE(title_of(section).empty()) << each->name;
    }
  }
}

TEST(Guides, AnAddressNamesItsSection) {
  const std::string practices = "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/";
  EXPECT_EQ(link_of({Guide::best_practices, "Loop Counters Signed vs. Unsigned"}),
            practices + "#loop-counters-signed-vs-unsigned");
  EXPECT_EQ(link_of({Guide::best_practices, "Strong Scaling and Amdahl's Law"}),
            practices + "#strong-scaling-and-amdahls-law");
  EXPECT_EQ(link_of({Guide::best_practices, "Title (C=AAT)", "title-c-aa"}),
            practices + "#title-c-aa");
  EXPECT_TRUE(link_of({Guide::programming, "#pragma unroll"}).ends_with("/#pragma-unroll"));
  EXPECT_EQ(link_of({Guide::driver_api, "Green Contexts", "green.html"}),
            "https://docs.nvidia.com/cuda/cuda-driver-api/green.html");
  EXPECT_EQ(link_of({Guide::best_practices}), practices);
  EXPECT_EQ(link_of({Guide::project, "jobs/README.md"}), "jobs/README.md");
  EXPECT_EQ(title_of({Guide::ptx, "A Section"}), "PTX ISA, A Section");
}

TEST(Catalogue, HelpAndPageHaveEveryTextOfAnExperiment) {
  const Experiment& stride = named("stride");
  const std::string text = help(stride);
  for (const char* const heading :
       {"\nQuestion\n", "\nCases and columns\n", "\nExercise\n", "\nExpectation\n", "\nPitfalls\n",
        "\nPublished\n", "\nRead on\n", "#strided-accesses\n"}) {
    EXPECT_NE(text.find(heading), text.npos) << heading << text;
  }
  Experiment without_pitfalls = stride;
  without_pitfalls.explanation.pitfalls = {};
  EXPECT_EQ(help(without_pitfalls).find("Pitfalls"), text.npos);
  const auto lesson = lesson_of("stride");
  ASSERT_TRUE(lesson);
  EXPECT_EQ(lesson->question, stride.explanation.question);
  ASSERT_EQ(lesson->texts.size(), 4U);
  EXPECT_EQ(lesson->texts[2].words, stride.explanation.expectation);
  EXPECT_EQ(lesson->read_on.size(), 2U);
  EXPECT_EQ(lesson->code.size(), code_of(stride).size());
  EXPECT_FALSE(lesson_of("none"));
}

/// The GPUs that each rank of one host sees. A letter names a GPU; `own` is the index of the rank's
/// own GPU among its letters.
std::vector<SeenGpus> seen(const std::vector<std::pair<std::string, std::size_t>>& gpus) {
  std::vector<SeenGpus> ranks;
  for (const auto& [letters, own] : gpus) {
    ranks.push_back({"host", {}, own});
    for (const char letter : letters) ranks.back().addresses.emplace_back(1, letter);
  }
  return ranks;
}

TEST(GpuPairs, OfARankAloneAreThoseOfItsOwnGpu) {
  EXPECT_EQ(partners_of(seen({{"abcd", 1}}), 0), (std::vector{0, 2, 3}));
  EXPECT_EQ(partners_of(seen({{"a", 0}}), 0), std::vector<int>{});
}

TEST(GpuPairs, AreMeasuredOnceByAllRanksTogether) {
  const std::vector<std::vector<std::pair<std::string, std::size_t>>> cases = {
      {{"ab", 0}, {"ab", 1}},
      {{"abcd", 0}, {"abcd", 1}, {"abcd", 2}, {"abcd", 3}},
      {{"abcd", 3}, {"abcd", 1}},
      {{"ab", 0}, {"ba", 0}},             // each names its own GPU first
      {{"abc", 0}, {"abc", 0}},           // one GPU
      {{"ac", 0}, {"abc", 1}, {"bc", 1}}  // the first one does not see b
  };
  for (const auto& gpus : cases) {
    const std::vector<SeenGpus> ranks = seen(gpus);
    std::multiset<std::set<std::string>> measured;
    std::set<std::set<std::string>> possible;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const auto& [host, addresses, own] = ranks[rank];
      for (std::size_t i = 0; i < addresses.size(); ++i) {
        if (i != own) possible.insert({addresses[own], addresses[i]});
      }
      for (const int other : partners_of(ranks, rank)) {
        measured.insert({addresses[own], addresses[static_cast<std::size_t>(other)]});
      }
    }
    EXPECT_EQ(std::set(measured.begin(), measured.end()), possible);
    EXPECT_EQ(measured.size(), possible.size());
  }
}

TEST(GpuPairs, OfTwoHostsMayHaveEqualAddresses) {
  std::vector<SeenGpus> ranks = seen({{"ab", 0}, {"ab", 0}});
  ranks[1].host = "another";
  EXPECT_EQ(partners_of(ranks, 0), std::vector{1});
  EXPECT_EQ(partners_of(ranks, 1), std::vector{1});
}

/// Rates, or times, of `ranks` ranks with equally many cases each, if they can be divided.
Table gathered(const std::vector<double>& figures, double half_interval, std::size_t ranks) {
  Table table("rows", {{"rank", ColumnType::integer},
                       {"figure", ColumnType::real},
                       {"ci_lo", ColumnType::real},
                       {"ci_hi", ColumnType::real}});
  std::size_t i = 0;
  for (const double figure : figures) {
    const auto rank = static_cast<std::int64_t>(i++ * ranks / figures.size());
    table.add({rank, figure, figure * (1 - half_interval), figure * (1 + half_interval)});
  }
  return table;
}

std::vector<std::size_t> slow_of(const std::vector<double>& figures, bool more_is_better,
                                 double half_interval = 0.01, std::size_t ranks = 3) {
  Figure figure;
  figure.y = "figure";
  figure.more_is_better = more_is_better;
  std::vector<std::size_t> found;
  for (const SlowRank& slow : slow_ranks(gathered(figures, half_interval, ranks), figure, ranks)) {
    found.push_back(slow.rank);
  }
  return found;
}

TEST(SlowRanks, AreThoseBeyondTheirIntervalAndThreePercent) {
  using Ranks = std::vector<std::size_t>;
  EXPECT_EQ(slow_of({10, 20, 9, 18, 10, 20}, true), (Ranks{1}));
  EXPECT_EQ(slow_of({10, 20, 11, 22, 10, 20}, false), (Ranks{1}));
  EXPECT_EQ(slow_of({10, 20, 11, 22, 10, 20}, true), Ranks{});         // a fast one is no fault
  EXPECT_EQ(slow_of({10, 20, 9.8, 19.6, 10, 20}, true), Ranks{});      // by 2 %
  EXPECT_EQ(slow_of({10, 20, 9, 18, 10, 20}, true, 0.09), Ranks{});    // within its interval
  EXPECT_EQ(slow_of({10, 20, 9, 20, 10, 20}, true), (Ranks{1}));       // in half of its cases
  EXPECT_EQ(slow_of({10, 20, 9, 18, 10, 20}, true, NAN), (Ranks{1}));  // there is no interval
  EXPECT_EQ(slow_of({10, 20, 9, 18}, true, 0.01, 1), Ranks{});         // has no siblings
  EXPECT_EQ(slow_of({10, 20, 9, 18, 10}, true), Ranks{});              // not alike
  EXPECT_EQ(slow_of({}, true), Ranks{});
}

TEST(SlowRanks, NeedAFigureThatIsGoodOrBad) {
  Figure figure;
  figure.y = "figure";
  figure.is_rated = false;
  EXPECT_TRUE(slow_ranks(gathered({10, 20, 9, 18, 10, 20}, 0, 3), figure, 3).empty());
}

TEST(SlowRanks, NeedAsManyRowsAsTheOthers) {
  Figure figure;
  figure.y = "figure";
  EXPECT_EQ(slow_ranks(gathered({10, 20, 9, 18}, 0, 2), figure, 2).size(), 1U);
  EXPECT_TRUE(slow_ranks(gathered({10, 20, 9, 18}, 0, 1), figure, 2).empty());  // all of rank 0
}

TEST(SlowRanks, HaveTheirShareOfTheOthers) {
  Figure figure;
  figure.y = "figure";
  const auto found = slow_ranks(gathered({10, 8, 10}, 0, 3), figure, 3);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].cases, 1U);
  EXPECT_DOUBLE_EQ(found[0].share, 0.8);
}

/// Two ranks with two cases each; the figure of the second case has no interval.
report::ExperimentResult result() {
  report::ExperimentResult made;
  made.name = "x";
  made.group = "tests";
  made.state = "measured";
  made.summary = "A test.";
  made.share = "of a ceiling";
  made.notes = {"A note."};
  made.look = "lines";
  made.x = "streams";
  made.y = "time";
  made.panel = "case";
  made.reference_lines = {"predicted"};
  made.better = "less";
  made.unconverged = 3;
  made.table = Table("rows", {{"rank", ColumnType::integer},
                              {"case", ColumnType::text},
                              {"streams", ColumnType::integer},
                              {"predicted", ColumnType::real},
                              {"time", ColumnType::real},
                              {"ci_lo", ColumnType::real},
                              {"ci_hi", ColumnType::real},
                              {"share", ColumnType::real},
                              {"remark", ColumnType::text}});
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    made.table.add({rank, "a", std::int64_t{1}, 2.0, 2.5, 2.25, 2.75, 0.5, "as expected"});
    made.table.add({rank, "b", std::int64_t{1}, 2.0, 2.5, NAN, NAN, NAN, ""});
  }
  return made;
}

TEST(Overlap, FollowsTheGuidesFormulas) {
  using link::Ways;
  const double copy = 8, kernel = 2;
  EXPECT_DOUBLE_EQ(model({copy, copy, copy, kernel}, Ways::one, 1), copy + kernel);
  EXPECT_DOUBLE_EQ(model({copy, copy, copy, kernel}, Ways::one, 4), copy + kernel / 4);
  EXPECT_DOUBLE_EQ(model({kernel, kernel, kernel, copy}, Ways::one, 4), copy + kernel / 4);
  // Both ways at once take 9, in place of 8 for each alone.
  EXPECT_DOUBLE_EQ(model({copy, copy, 9, kernel}, Ways::two, 1), 2 * copy + kernel);
  EXPECT_DOUBLE_EQ(model({copy, copy, 9, kernel}, Ways::two, 2), (2 * copy + kernel + 9) / 2);
  EXPECT_DOUBLE_EQ(bound({copy, copy, 9, kernel}, Ways::two), 9);
  EXPECT_DOUBLE_EQ(bound({copy, copy, 9, 10}, Ways::one), 10);
}

TEST(Latency, HasALevelForEachCache) {
  using memory::Level, memory::levels_of;
  EXPECT_EQ(levels_of({16, 16, 16.5, 60, 140, 142, 200, 337, 340}),
            (std::vector<Level>{{0, 3}, {4, 6}, {7, 9}}));
  EXPECT_EQ(levels_of({16, 20, 30, 60}), std::vector<Level>{});
  EXPECT_EQ(levels_of({16, 16}), (std::vector<Level>{{0, 2}}));
  EXPECT_EQ(levels_of({}), std::vector<Level>{});
}

TEST(Results, SayWhatAShareIsOf) {
  report::ExperimentResult made = result();
  EXPECT_EQ(report::words_on_share(made), "share: of a ceiling");
  EXPECT_NE(report::to_text(made).find("share: of a ceiling"), std::string::npos);
  made.share.clear();
  EXPECT_EQ(report::words_on_share(made), "");
}

TEST(Results, WithoutAnyShareNeedNoExplanation) {
  report::ExperimentResult made = result();
  for (std::size_t row = 0; row < 4; ++row) made.table.set(row, "share", NAN);
  EXPECT_EQ(report::words_on_share(made), "");
}

TEST(Results, ShowUnknownNumbersAsDashes) {
  EXPECT_EQ(report::to_text(result()).find("nan"), std::string::npos) << report::to_text(result());
}

TEST(Results, CountTimingsPerRank) {
  const std::string text = report::to_text(result());
  EXPECT_NE(text.find("3 timings on 2 ranks, 1.5"), std::string::npos) << text;
}

TEST(Results, AreCountedByState) {
  std::vector<report::ExperimentResult> results(4, result());
  results[0].state = "failed";
  results[2].state = "wrong";
  EXPECT_EQ(report::count_of_states(results), "4 experiments: 2 measured, 1 failed, 1 wrong");
}

std::vector<report::page::Figure> figures_of(const report::ExperimentResult& made) {
  report::BenchFile bench;
  bench.ranks = 2;
  bench.experiments = {made};
  return report::page::experiment_figures(bench);
}

bool has(const report::page::Figure& figure, std::string_view part) {
  return figure.script.find(part) != figure.script.npos;
}

TEST(Figures, OfOnePointOnEachLineHaveBarsAndReferences) {
  for (const auto& figure : figures_of(result())) {
    EXPECT_TRUE(has(figure, "with boxxyerror")) << figure.script;
    EXPECT_TRUE(has(figure, "with vectors nohead lw 2"));  // the reference
    ASSERT_FALSE(figure.legend.empty());
    EXPECT_EQ(figure.legend.back().words, "predicted");
    EXPECT_EQ(figure.labels.at("BAR000LINE00"), "streams = 1");
    EXPECT_EQ(figure.labels.at("VALUE000"), "2.5");
  }
  report::ExperimentResult made = result();
  made.series = "remark";
  const auto figures = figures_of(made);
  EXPECT_EQ(figures[0].labels.at("BAR000LINE00"), "as expected");
  EXPECT_EQ(figures[0].labels.at("YLABEL"), "time, streams = 1");
}

TEST(Figures, HaveAnAxisForASingleNumber) {
  report::ExperimentResult made = result();
  made.table.add({std::int64_t{0}, "a", std::int64_t{1}, 2.0, 3.5, NAN, NAN, NAN, ""});
  const auto figures = figures_of(made);  // two points at the same place
  EXPECT_TRUE(has(figures[0], "set xrange [0:2]")) << figures[0].script;
}

/// An experiment with a bar for each value, on a logarithmic axis.
report::ExperimentResult bars(const std::vector<double>& values) {
  report::ExperimentResult made = result();
  made.look = "bars";
  made.x = "remark";
  made.panel = "";
  made.log = "y";
  const std::vector<Column> columns = made.table.columns();
  made.table = Table("rows", columns);
  for (std::size_t i = 0; i < values.size(); ++i) {
    made.table.add({std::int64_t{0}, "a", static_cast<std::int64_t>(i), NAN, values[i], NAN, NAN,
                    NAN, "a name that is too long for one line"});
  }
  return made;
}

TEST(Figures, HaveBarsOnlyOnLinearAxes) {
  const auto near = figures_of(bars({1, 30})), far = figures_of(bars({1, 50}));
  EXPECT_TRUE(has(near[0], "with boxxyerror") && !has(near[0], "logscale"));
  EXPECT_TRUE(!has(far[0], "with boxxyerror") && has(far[0], "logscale x"));
}

TEST(Figures, TellBarsApartAndHaveWholeNames) {
  const auto figures = figures_of(bars({1, 2}));
  std::string name;
  for (const auto& [word, text] : figures[0].labels) {
    if (word.starts_with("BAR001")) name += text + ' ';
  }
  EXPECT_EQ(name, "a name that is too long for one line, streams 1 ");
}

TEST(Figures, HaveTheTextsOnceAndAllReferenceLines) {
  report::ExperimentResult made = result();
  made.table.add({std::int64_t{0}, "a", std::int64_t{2}, 2.0, 2.5, NAN, NAN, NAN, ""});
  made.table.add({std::int64_t{0}, "b", std::int64_t{2}, 2.0, 2.5, NAN, NAN, NAN, ""});
  const auto figures = figures_of(made);
  ASSERT_EQ(figures.size(), 2U);
  EXPECT_NE(figures[0].title.find("A test."), std::string::npos);
  EXPECT_NE(figures[0].how_to_read.find("A note."), std::string::npos);
  EXPECT_NE(figures[0].how_to_read.find("share: of a ceiling"), std::string::npos);
  EXPECT_EQ(figures[1].how_to_read, "");
  for (const auto& figure : figures) {
    EXPECT_NE(figure.script.find("using 1:2 with lines"), std::string::npos) << figure.script;
    ASSERT_FALSE(figure.legend.empty());
    EXPECT_EQ(figure.legend.back().words, "predicted");
  }
  for (const auto& cell : figures[1].numbers.rows.at(0)) EXPECT_EQ(cell.find("nan"), cell.npos);
}

TEST(Figures, OnlyTheFirstOneOfAKnownExperimentHasItsLesson) {
  report::BenchFile bench;
  bench.experiments = {result(), result()};
  bench.experiments[1].name = "unknown";
  const auto figures = report::page::experiment_figures(bench, [](std::string_view name) {
    std::optional<report::Lesson> lesson;
    if (name == "x") {
      lesson = {"Why <so>?", {{"Pitfalls", "None."}}, {{"A guide", "https://a/#b"}}, {}};
    }
    return lesson;
  });
  ASSERT_EQ(figures.size(), 4U);
  for (const char* const text :
       {"Why &lt;so&gt;?", "Pitfalls", "<a href=\"https://a/#b\">A guide"}) {
    EXPECT_NE(figures[0].lesson.find(text), std::string::npos) << figures[0].lesson;
  }
  for (std::size_t i = 1; i < figures.size(); ++i) EXPECT_EQ(figures[i].lesson, "");
}

TEST(CodeOnAPage, MarksWhatIsNewButNotOtherIndentation) {
  using report::page::new_lines;
  EXPECT_EQ(new_lines("a\nb\nc\n", "a\n  b\nx\nc\n"), (std::vector{false, false, true, false}));
  EXPECT_EQ(new_lines("b\na\n", "a\nb\n"), (std::vector{false, true}));
  EXPECT_EQ(new_lines("", "a\n"), std::vector{true});
  EXPECT_EQ(new_lines("a\n", ""), std::vector<bool>{});
}

/// A ladder of three rungs, the last two with one kernel.
Table ladder(const std::string& first, const std::string& second) {
  Table table("rows", {{"rung", ColumnType::text}, {"kernel", ColumnType::text}});
  for (int size = 0; size < 2; ++size) {
    table.add({"one", first});
    table.add({"two", second});
    table.add({"three", second});
    table.add({"library", "-"});
  }
  return table;
}

TEST(CodeOnAPage, OfALadderHasEachRungOnceWithItsNewLines) {
  report::Lesson lesson;
  lesson.code = {{"src/x/a.cu:3", "// first\nint a = 1 < 2;\nreturn a;\n"},
                 {"src/x/a.cu:9", "// second\nint a = 3;\nreturn a;\n"}};
  const std::string html = report::page::code_of_rungs(lesson, ladder("a.cu:3", "a.cu:9"));
  for (const char* const text :
       {"<h4>one</h4>", "int a = 1 &lt; 2;\n", "<h4>two</h4>",
        "// second\n<mark>int a = 3;</mark>\nreturn a;\n", "<h4>three</h4>\n<p>The kernel above"}) {
    const auto at = html.find(text);
    ASSERT_NE(at, html.npos) << text << html;
    EXPECT_EQ(html.find(text, at + 1), html.npos) << text;
  }
  EXPECT_EQ(html.find("library"), html.npos);
  EXPECT_EQ(html.find("<mark>"), html.rfind("<mark>"));
  EXPECT_EQ(report::page::code_of_rungs(lesson, ladder("a.cu:1", "a.cu:9")), "");
  EXPECT_EQ(report::page::code_of_rungs(lesson, ladder("ba.cu:3", "ba.cu:9")), "");
  EXPECT_EQ(report::page::code_of_rungs(lesson, result().table), "");
  EXPECT_EQ(report::page::code_of_lesson(lesson).find("<mark>"), html.npos);
  EXPECT_NE(report::page::code_of_lesson(lesson).find("src/x/a.cu:9"), html.npos);
  EXPECT_EQ(report::page::code_of_lesson({}), "");
}

}  // namespace
}  // namespace shardstream::experiments
