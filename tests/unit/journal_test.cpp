// The journals that a run writes.
#include <sys/resource.h>
#include <sys/stat.h>

#include <thread>

#include "core/error.hpp"
#include "support/checkpoints.hpp"
#include "support/errors.hpp"

namespace shardstream::io {
namespace {

using test::names;

TEST_F(Checkpoints, AreAccessibleOnlyToTheirUser) {
  Run run(*this, "new", 1);
  run.begin();
  for (const std::string& name : entries()) {
    EXPECT_EQ(fs::status(folder_ / name).permissions(),
              fs::perms::owner_read | fs::perms::owner_write)
        << name;
  }
  const auto mask = ::umask(027);
  run.file.publish();
  ::umask(mask);
  EXPECT_EQ(fs::status(result_).permissions(),
            fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
}

TEST_F(Checkpoints, StayWithinTheReservedDiskSpace) {
  constexpr std::uint64_t pieces = 500, groups = 50;
  Run run(*this, "new", 2);
  run.begin();
  for (std::uint64_t i = 0; i < pieces; ++i) {
    FinishedPiece each = piece(i, i / 10);
    each.record[0] = ~std::uint64_t{0} / 7 * 5 - i;
    run.journals[i % 2]->add(each);
    for (auto& journal : run.journals) {
      if (i % 10 == 9) journal->add_group(i / 10);
    }
  }
  const std::uint64_t taken = read_text(journal(0, "new")).size();
  EXPECT_GE(journal_bytes(product, {pieces / 2, groups, 3}), taken);
  EXPECT_LE(journal_bytes(product, {pieces / 2, groups, 3}), taken * 2);
}

/// An error ends the run, so destructors run.
TEST_F(Checkpoints, KeepTheirElementsWhenAnErrorEndsTheRun) {
  {
    Run run(*this, "old", 1);
    run.begin();
    run.write(7);
    run.journals[0]->add(piece(0, 0));
    EXPECT_EQ(run.told, 0);
    run.journals[0]->add_group(0);
    run.journals[0]->add_group(1);
    EXPECT_EQ(run.told, 1);
    run.file.keep();
  }
  const auto checkpoint = read();
  ASSERT_EQ(numbers(checkpoint), Numbers{0});
  EXPECT_EQ(first_element(*checkpoint, checkpoint->pieces[0]), 7);
}

TEST_F(Checkpoints, OfOtherComputationsAreRejected) {
  leave_run();
  const auto checkpoint = read();
  const auto complaint = [&](const Fingerprint& now, bool stores = true) -> std::string {
    Run run(*this, "new", 1, stores);
    try {
      run.journals[0]->begin(now, &*checkpoint, extent);
    } catch (const UsageError& error) {
      EXPECT_FALSE(fs::exists(journal(0, "new")));
      EXPECT_EQ(run.told, 0);
      return error.what();
    }
    EXPECT_EQ(run.told, 1) << "there is a checkpoint from the start";
    return "";
  };
  EXPECT_EQ(complaint(product), "");
  remove_journals(result_, id("new"));
  Fingerprint other = product;
  other[1].second = "3";
  other[2].second = "b";
  const std::string message = complaint(other);
  EXPECT_TRUE(
      names(message, "2 finished pieces", "gemm.alpha", "'2'", "'3'", "--output.resume never"));
  EXPECT_TRUE(names(complaint(product, false), "output.store", "'true'", "'false'"));
  other = product;
  other.insert(other.begin(), {"k", "1"});
  EXPECT_TRUE(names(complaint(other), "m", "'8'", "k", "'1'"));
  other = product;
  other.pop_back();
  EXPECT_TRUE(names(complaint(other), "input.a"));
}

TEST_F(Checkpoints, AreWrittenByManyThreads) {
  constexpr std::uint64_t threads = 4, each = 500;
  in_killed_process([&] {
    Run& run = *new Run(*this, "old", 1);
    run.begin();
    std::vector<std::thread> writers;
    for (std::uint64_t w = 0; w < threads; ++w) {
      writers.emplace_back([&, w] {
        for (std::uint64_t i = 0; i < each; ++i) run.journals[0]->add(piece(w * each + i, 0));
      });
    }
    for (auto& writer : writers) writer.join();
    run.journals[0]->add_group(0);
  });
  EXPECT_EQ(numbers(read()).size(), threads * each);
}

/// Missing space is reported before any work.
TEST_F(Checkpoints, NeedDiskSpaceForTheirJournals) {
  in_killed_process([&] {
    Run& run = *new Run(*this, "old", 1);
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(1);
    run.journals[0]->begin(product, nullptr, {1000, 10, 5});
    Journal large(result_, id("large"), 0, 1, {}, log_, [] {});
    try {
      large.begin(product, nullptr, {10'000, 10, 5});
    } catch (const UsageError&) {
      return;
    }
    ::_exit(2);
  });
}

TEST_F(Checkpoints, SurviveAFullDisk) {
  in_killed_process([&] {
    Run& run = *new Run(*this, "old", 1);
    run.begin();
    run.journals[0]->add(piece(0, 0));
    run.journals[0]->add_group(0);
    ::signal(SIGXFSZ, SIG_IGN);
    const auto size = fs::file_size(journal(0));
    const rlimit limit{size + 20, size + 20};  // in the middle of the next line
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(1);
    run.journals[0]->add(piece(1, 0));
    run.journals[0]->add(piece(2, 0));
    if (log_.warnings().size() != 1 || run.journals[0]->sync()) ::_exit(2);
    if (fs::file_size(journal(0)) != size) ::_exit(3);
  });
  EXPECT_EQ(numbers(read()), Numbers{0});
}

TEST_F(Checkpoints, DoNotEndARunThatCannotWriteThem) {
  int told = 0;
  Journal journal(folder_ / "nowhere/C.h5", id("old"), 0, 1, {}, log_, [&] { ++told; });
  journal.begin(product, nullptr, extent);
  journal.add(piece(0, 0));
  journal.add_group(0);
  EXPECT_FALSE(journal.sync());
  EXPECT_EQ(told, 0);
  ASSERT_EQ(log_.warnings().size(), 1u);
  EXPECT_TRUE(
      names(log_.warnings()[0], journal_path_of("nowhere/C.h5", id("old"), 0).string() + "'"));
}

}  // namespace
}  // namespace shardstream::io
