// The finished pieces that a later run finds, however the earlier runs have ended.
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include "core/error.hpp"
#include "io/output/part_file.hpp"
#include "support/checkpoints.hpp"
#include "support/errors.hpp"

namespace shardstream::io {
namespace {

using test::names;

TEST_F(Checkpoints, ContainTheFinishedTilesOfAKilledRun) {
  leave_run();
  const auto checkpoint = read();
  ASSERT_EQ(numbers(checkpoint), (Numbers{0, 1}));
  EXPECT_EQ(checkpoint->restarts, 0U);
  for (const auto& found : checkpoint->pieces) {
    EXPECT_EQ(found.record, piece(found.number, 0).record);
    EXPECT_EQ(first_element(*checkpoint, found), 100);
  }
}

TEST_F(Checkpoints, NeedAGroupOnAllRanks) {
  leave_run();
  fs::remove(journal(1));
  EXPECT_EQ(numbers(read()), Numbers{});
  EXPECT_EQ(entries(), std::set<std::string>{}) << "nothing of use was left";
}

/// After a changed byte, nothing counts, and no value is accepted that was not written.
TEST_F(Checkpoints, IgnoreDamagedLines) {
  leave_run();
  const std::string of_0 = read_text(journal(0)), of_1 = read_text(journal(1));
  for (std::size_t i = 0; i + 1 < of_0.size(); ++i) {
    for (const char flip : {1, 2, 64}) {
      std::string damaged = of_0;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      const auto checkpoint = parse_checkpoint(result_, damaged + of_1);
      // Group 0 of rank 0 is in the fourth line; later lines do not matter.
      const bool early = std::count(of_0.begin(), of_0.begin() + static_cast<long>(i), '\n') < 4;
      EXPECT_EQ(numbers(checkpoint), early ? Numbers{} : (Numbers{0, 1})) << damaged;
    }
  }
  // Valid lines in other places
  const auto first_end = of_0.find('\n') + 1, second_end = of_0.find('\n', first_end) + 1;
  const std::string head = of_0.substr(0, first_end);
  const std::string tile_0 = of_0.substr(first_end, second_end - first_end);
  const std::string rest = of_0.substr(second_end);
  EXPECT_EQ(numbers(parse_checkpoint(result_, head + rest + of_1)), Numbers{});
  EXPECT_EQ(numbers(parse_checkpoint(result_, head + tile_0 + tile_0 + rest + of_1)), Numbers{});
  EXPECT_EQ(numbers(parse_checkpoint(result_, of_1 + tile_0 + rest)), Numbers{});
}

/// With correct checksums, as a person or another program could have written them.
TEST_F(Checkpoints, IgnoreImpossibleValues) {
  const auto line = [](JournalChecksum& checksum, const std::string& json) {
    std::array<char, 17> digits{};
    std::snprintf(digits.data(), digits.size(), "%016lx", checksum.add(json));
    return std::string(digits.data()) + " " + json + "\n";
  };
  const auto journal = [&](const std::string& ranks, const std::string& piece) {
    JournalChecksum checksum;
    const std::string head =
        line(checksum, journal_start(id("old"), 0) + "\"ranks\":" + ranks +
                           ",\"offsets\":[8],\"restarts\":0,\"fingerprint\":[]}");
    const std::string entry = line(checksum, piece);
    return head + entry + line(checksum, "{\"group\":0}");
  };
  const std::string right = R"({"piece":7,"record":[4,9],"group":0})";
  EXPECT_EQ(numbers(parse_checkpoint(result_, journal("1", right))), Numbers{7});
  for (const char* ranks : {"0", "2", "-1", "1.5", "\"1\"", "null", "[]", "1e99"}) {
    EXPECT_EQ(numbers(parse_checkpoint(result_, journal(ranks, right))), Numbers{}) << ranks;
  }
  for (const char* number : {"7", "4", "9", "0", "[4,9]"}) {
    for (const char* value : {"-1", "0.5", "\"7\"", "null", "{}", "1e99", "true"}) {
      if (number == std::string("[4,9]") && (value == std::string("null") || *value == '{'))
        continue;
      std::string wrong = right;
      wrong.replace(wrong.find(number), std::string(number).size(), value);
      EXPECT_EQ(numbers(parse_checkpoint(result_, journal("1", wrong))), Numbers{}) << wrong;
    }
  }
}

/// In a folder that other users can write to, a file with such a name may have any contents.
TEST_F(Checkpoints, OfOtherUsersAreIgnored) {
  const auto expect_ignored = [&](const char* what) {
    const auto before = entries();
    const EarlierRuns earlier(result_);
    EXPECT_FALSE(earlier.contested());
    EXPECT_EQ(earlier.journals(), "");
    ASSERT_EQ(earlier.warnings().size(), 1u) << what;
    EXPECT_TRUE(names(earlier.warnings()[0], journal(0).string())) << what;
    EXPECT_EQ(find_checkpoint(result_).warnings.size(), 1u);
    EXPECT_EQ(entries(), before);
    fs::remove(journal(0));
  };
  fs::create_symlink("/dev/zero", journal(0));
  expect_ignored("a symbolic link");
  ASSERT_EQ(::mkfifo(journal(0).c_str(), 0600), 0);
  expect_ignored("a pipe");
  fs::create_directory(journal(0));
  expect_ignored("a folder");
  std::ofstream(journal(0)) << "something else\n";
  expect_ignored("another beginning");
  std::ofstream{journal(0)};
  fs::resize_file(journal(0), max_journal_bytes + 1);
  expect_ignored("too large");
  std::ofstream{journal(0)};
  fs::permissions(journal(0), fs::perms::all);
  expect_ignored("writable by other users");
  if (::geteuid() == 0) {  // only root can change the owner of a file
    std::ofstream{journal(0)};
    ASSERT_EQ(::chown(journal(0).c_str(), 65534, 65534), 0);
    expect_ignored("another user");
  }
}

/// Other files with similar names stay.
TEST_F(Checkpoints, AreRemovedOnlyIfTheirNamesHaveTheForm) {
  const std::string run = id("dead");
  const std::set<std::string> others = {
      ".C.h5.mybackup.part",          ".C.h5." + run + "0.part",
      ".C.h5." + run + ".bak.part",   ".C.h5." + run + ".0x.checkpoint",
      ".C.h5." + run + ".checkpoint", ".C.h5." + run + ".01.checkpoint",
      ".C.h5.x." + run + ".part"};
  for (const std::string& name : others) std::ofstream{folder_ / name};
  std::ofstream(part_path_of(result_, run)) << "data of somebody";
  remove_stale_parts(result_);
  EarlierRuns(result_).remove();
  EXPECT_EQ(entries().size(), others.size() + 1);
  std::ofstream(part_path_of(result_, run)) << "\211HDF\r\n\032\n and more";
  remove_stale_parts(result_);
  EXPECT_EQ(entries(), others);
}

/// A crash can truncate a journal anywhere, or leave zeros.
TEST_F(Checkpoints, EndAtATornLine) {
  leave_run();
  const std::string of_0 = read_text(journal(0)), of_1 = read_text(journal(1));
  const auto lines = [](const std::string& text) { return std::ranges::count(text, '\n'); };
  ASSERT_EQ(lines(of_0), 5);
  for (std::size_t cut = 0; cut <= of_0.size(); ++cut) {
    const std::string torn = of_0.substr(0, cut);
    // First line, tile 0, tile 2, group 0, group 1. A line that only lacks its end counts.
    const auto whole = lines(of_0.substr(0, cut + 1));
    const Numbers expected = whole >= 4 ? Numbers{0, 1} : Numbers{};
    EXPECT_EQ(numbers(parse_checkpoint(result_, torn + '\n' + of_1)), expected) << torn;
    const std::string zeros = torn + std::string(of_0.size() - cut, '\0') + '\n';
    const Numbers before_zeros = lines(torn) >= 4 ? Numbers{0, 1} : Numbers{};
    EXPECT_EQ(numbers(parse_checkpoint(result_, zeros + of_1)), before_zeros) << cut;
    if (lines(torn) < 4) continue;
    std::ofstream(journal(0), std::ios::binary) << torn;
    EXPECT_EQ(numbers(read()), expected) << torn;
  }
  for (const auto* nonsense : {"", "\n", "{}\n", "[]\n", "{\"group\":0}\n", "null\n{\"run\":1}\n",
                               "{\"run\":\"x\"}\n{\"tile\":1}\n", "\xff\xfe\n"}) {
    EXPECT_EQ(numbers(parse_checkpoint(result_, nonsense)), Numbers{}) << nonsense;
  }
}

TEST_F(Checkpoints, AreKeptByTheNextRunUntilTakenOver) {
  leave_run();
  const fs::path dead = part_path_of(result_, id("dead"));
  std::ofstream{dead};  // without a journal
  {
    const ResultFile next(result_, Overwrite::never, id("new"), 1 << 16);
    EXPECT_FALSE(fs::exists(dead));
    EXPECT_TRUE(fs::exists(part_path_of(result_, id("old"))));
    EarlierRuns earlier(result_);
    EXPECT_FALSE(earlier.contested());
    EXPECT_EQ(numbers(parse_checkpoint(result_, earlier.journals())), (Numbers{0, 1}));
    EXPECT_TRUE(EarlierRuns(result_).contested()) << "two runs resume from one checkpoint";
    EXPECT_TRUE(fs::exists(journal(0)));
    earlier.remove();
    EXPECT_EQ(entries(), std::set<std::string>{next.part_path().filename()});
  }
  EXPECT_EQ(entries(), std::set<std::string>{});
}

TEST_F(Checkpoints, NeedTheirPartFile) {
  leave_run();
  fs::remove(part_path_of(result_, id("old")));
  std::ofstream(folder_ / ".C.h5.more.old.0.checkpoint") << "of a longer name";
  EXPECT_EQ(numbers(read()), Numbers{});
  EXPECT_EQ(entries(), std::set<std::string>{".C.h5.more.old.0.checkpoint"});
}

TEST_F(Checkpoints, OfRunningRunsAreIgnored) {
  Run run(*this, "living", 2);
  run.begin();
  const auto before = entries();
  EXPECT_EQ(before.size(), 3u);
  EXPECT_TRUE(EarlierRuns(result_).contested());
  EXPECT_TRUE(find_checkpoint(result_).contested);
  EXPECT_EQ(numbers(read()), Numbers{});
  EXPECT_EQ(entries(), before);
}

/// The launcher has killed rank 0, and rank 1 is still ending.
TEST_F(Checkpoints, AreNotReadWhileARankStillWrites) {
  std::unique_ptr<Journal> last;
  Log log("", log_file_);
  {
    Run run(*this, "old", 1);
    run.begin();
    run.file.keep();
    last = std::make_unique<Journal>(result_, id("old"), 1, 2, run.matrices, log, [] {});
    last->begin(product, nullptr, extent);
  }
  const auto before = entries();
  EXPECT_TRUE(EarlierRuns(result_).contested());
  EXPECT_EQ(entries(), before);
  last.reset();
  EXPECT_FALSE(EarlierRuns(result_).contested());
}

/// A dry run neither removes files nor takes them from a run that begins meanwhile.
TEST_F(Checkpoints, CanBeInspectedWithoutChanges) {
  EXPECT_FALSE(find_checkpoint(result_).checkpoint);
  leave_run();
  in_killed_process([&] { (new Run(*this, "useless", 1))->begin(); });
  const auto before = entries();
  const FoundCheckpoint found = find_checkpoint(result_);
  EXPECT_EQ(numbers(found.checkpoint), (Numbers{0, 1}));
  EXPECT_FALSE(found.contested);
  EXPECT_EQ(entries(), before);
  const EarlierRuns next(result_);
  EXPECT_FALSE(find_checkpoint(result_).checkpoint == std::nullopt);
  EXPECT_FALSE(next.contested());

  // Values that are unknown are not compared.
  const auto compare = [&](const Fingerprint& now, bool stored = true) {
    constexpr std::array<std::string_view, 1> unknown = {"gemm.alpha"};
    expect_same_computation(*found.checkpoint, now, stored, unknown);
  };
  EXPECT_NO_THROW(compare(product));
  EXPECT_NO_THROW(compare({product[0], product[2]}));
  EXPECT_NO_THROW(compare({product[0], {"gemm.alpha", "3"}, product[2]}));
  EXPECT_THROW(compare({product[0], product[1]}), UsageError);
  EXPECT_THROW(compare(product, false), UsageError);
}

/// The second run is killed while it takes over the pieces of the first one.
TEST_F(Checkpoints, OfSeveralRunsAreMerged) {
  leave_run("first", 100);
  in_killed_process([&] {
    const auto earlier = read();
    Run& run = *new Run(*this, "second", 3);
    run.begin(&*earlier);
    run.write(1000);
    run.journals[2]->add(piece(1, std::nullopt));
    run.journals[2]->add(piece(7, std::nullopt));
    run.journals[0]->add(piece(5, 0));  // no rank has verified the group
  });
  const auto both = read();
  ASSERT_EQ(numbers(both), (Numbers{0, 1, 7}));
  ASSERT_EQ(both->runs.size(), 2u);
  EXPECT_EQ(first_element(*both, both->pieces[0]), 100);
  EXPECT_EQ(first_element(*both, both->pieces[2]), 1000);
  // The journals of the first run had been removed, but not its part file.
  remove_journals(result_, id("first"));
  const ResultFile third(result_, Overwrite::never, id("third"), 1 << 16);
  EXPECT_FALSE(fs::exists(part_path_of(result_, id("first"))));
  EXPECT_EQ(numbers(read()), (Numbers{1, 7}));
}

TEST_F(Checkpoints, WithoutStoredPiecesKeepTheirRecords) {
  in_killed_process([&] {
    Run& run = *new Run(*this, "old", 1, false);
    run.begin();
    run.journals[0]->add(piece(3, 0));
    run.journals[0]->add_group(0);
  });
  const auto checkpoint = read();
  ASSERT_EQ(numbers(checkpoint), Numbers{3});
  EXPECT_EQ(checkpoint->pieces[0].record, piece(3, 0).record);
  EXPECT_TRUE(checkpoint->runs[0].offsets.empty());
}

}  // namespace
}  // namespace shardstream::io
