// Journals of runs and what a later run makes of them, whatever has ended the one before.
#include "io/output/checkpoint.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <thread>

#include "core/error.hpp"
#include "io/hdf5/result_file.hpp"
#include "io/output/part_file.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::io {
namespace {

using test::names;

namespace fs = std::filesystem;

constexpr std::uint64_t rows = 8, columns = 6;
const Fingerprint product = {{"m", "8"}, {"gemm.alpha", "2"}, {"input.a", "a\xff\n.h5:/A"}};

FinishedPiece piece(std::uint64_t number, std::optional<std::uint64_t> group) {
  return {.number = number, .group = group, .record = {number + 1, 0, UINT64_MAX}};
}
const JournalExtent extent{.pieces = 10, .groups = 10, .record = 3};

/// A run's UUID that has something to do with `name`, of at most 6 letters.
std::string id(const std::string& name) {
  std::string hex;
  for (const char c : name) hex += "0123456789abcdef"[c % 16];
  return "12345678-1234-4123-8123-" + hex + std::string(12 - hex.size(), '0');
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::uint64_t> numbers(const std::optional<Checkpoint>& checkpoint) {
  std::vector<std::uint64_t> all;
  for (std::size_t i = 0; checkpoint && i < checkpoint->pieces.size(); ++i) {
    all.push_back(checkpoint->pieces[i].number);
  }
  return all;
}

using Numbers = std::vector<std::uint64_t>;

class Checkpoints : public testing::Test {
 protected:
  ~Checkpoints() override { std::fclose(log_file_); }

  /// All ranks of a run in one process.
  struct Run {
    ResultFile file;
    std::optional<RangeWriter> matrix;
    std::vector<std::unique_ptr<Journal>> journals;
    int told = 0;

    Run(Checkpoints& test, const std::string& uuid, int ranks, bool stores = true)
        : file(test.result_, Overwrite::never, id(uuid), 1 << 16) {
      if (stores) {
        const auto offset = file.dataset("/results", "C", ElementType::f32, rows, columns);
        matrix.emplace(file.part_path(), offset, ElementType::f32, columns);
      }
      for (int rank = 0; rank < ranks; ++rank) {
        journals.push_back(std::make_unique<Journal>(test.result_, id(uuid), rank, ranks,
                                                     matrix ? &*matrix : nullptr, test.log_,
                                                     [this] { ++told; }));
      }
    }
    void begin(const Checkpoint* earlier = nullptr) {
      for (auto& journal : journals) journal->begin(product, earlier, extent);
    }
    void write(float first) const {
      std::vector<float> values(rows * columns);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
      matrix->write(0, std::as_bytes(std::span(values)));
    }
  };

  /// Does `work` in a process that is then killed.
  template <class Work>
  void in_killed_process(const Work& work) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      work();
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }
  /// Two ranks; pieces 0 and 1 are finished, 2 is not: one rank has not verified its inputs.
  void leave_run(const std::string& uuid = "old", float first = 100) {
    in_killed_process([&] {
      Run& run = *new Run(*this, uuid, 2);
      run.begin();
      run.write(first);
      run.journals[0]->add(piece(0, 0));
      run.journals[1]->add(piece(1, 0));
      run.journals[0]->add(piece(2, 1));
      for (auto& journal : run.journals) journal->add_group(0);
      run.journals[0]->add_group(1);
    });
  }

  std::set<std::string> entries() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      names.insert(entry.path().filename());
    }
    return names;
  }
  fs::path journal(int rank, const std::string& uuid = "old") const {
    return journal_path_of(result_, id(uuid), rank);
  }
  std::optional<Checkpoint> read() const {
    return parse_checkpoint(result_, EarlierRuns(result_).journals());
  }

  /// Of the whole result, in the part file that has `piece`.
  static float first_element(const Checkpoint& checkpoint, const Checkpoint::Piece& piece) {
    const Checkpoint::Run& run = checkpoint.runs.at(piece.run);
    float first = 0;
    std::ifstream file(run.part, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(run.offset.value()));
    file.read(reinterpret_cast<char*>(&first), sizeof(first));
    EXPECT_TRUE(file.good());
    return first;
  }

  test::TemporaryFolder folder_;
  fs::path result_ = folder_ / "C.h5";
  std::FILE* log_file_ = std::tmpfile();
  Log log_{"", log_file_};
};

// ---------------------------------------------------------------- what is left

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

/// Whatever was changed, what follows does not count; and nothing is believed that was not written.
TEST_F(Checkpoints, IgnoreDamagedLines) {
  leave_run();
  const std::string of_0 = read_text(journal(0)), of_1 = read_text(journal(1));
  for (std::size_t i = 0; i + 1 < of_0.size(); ++i) {
    for (const char flip : {1, 2, 64}) {
      std::string damaged = of_0;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      const auto checkpoint = parse_checkpoint(result_, damaged + of_1);
      // Group 0 of rank 0 is in its fourth line; what is behind that does not matter.
      const bool early = std::count(of_0.begin(), of_0.begin() + static_cast<long>(i), '\n') < 4;
      EXPECT_EQ(numbers(checkpoint), early ? Numbers{} : (Numbers{0, 1})) << damaged;
    }
  }
  // Lines of the right form in other places.
  const auto first_end = of_0.find('\n') + 1, second_end = of_0.find('\n', first_end) + 1;
  const std::string head = of_0.substr(0, first_end);
  const std::string tile_0 = of_0.substr(first_end, second_end - first_end);
  const std::string rest = of_0.substr(second_end);
  EXPECT_EQ(numbers(parse_checkpoint(result_, head + rest + of_1)), Numbers{});
  EXPECT_EQ(numbers(parse_checkpoint(result_, head + tile_0 + tile_0 + rest + of_1)), Numbers{});
  EXPECT_EQ(numbers(parse_checkpoint(result_, of_1 + tile_0 + rest)), Numbers{});
}

/// With the right checksums, as a hand or another program could have written them.
TEST_F(Checkpoints, IgnoreImpossibleValues) {
  const auto line = [](JournalChecksum& checksum, const std::string& json) {
    std::array<char, 17> digits{};
    std::snprintf(digits.data(), digits.size(), "%016lx", checksum.add(json));
    return std::string(digits.data()) + " " + json + "\n";
  };
  const auto journal = [&](const std::string& ranks, const std::string& piece) {
    JournalChecksum checksum;
    const std::string head = line(checksum, journal_start(id("old"), 0) + "\"ranks\":" + ranks +
                                                ",\"offset\":8,\"restarts\":0,\"fingerprint\":[]}");
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

/// In a folder that others can write to, a file with the name of a run's can be anything.
TEST_F(Checkpoints, OfOtherUsersAreIgnored) {
  const auto expect_ignored = [&](const char* what) {
    const auto before = entries();
    const EarlierRuns earlier(result_);
    EXPECT_FALSE(earlier.contested());
    EXPECT_EQ(earlier.journals(), "");
    ASSERT_EQ(earlier.warnings().size(), 1u) << what;
    EXPECT_TRUE(names(earlier.warnings()[0], journal(0).string())) << what;
    EXPECT_EQ(look_for_remains(result_).warnings.size(), 1u);
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
  if (::geteuid() == 0) {  // else no file can be given away
    std::ofstream{journal(0)};
    ASSERT_EQ(::chown(journal(0).c_str(), 65534, 65534), 0);
    expect_ignored("another user");
  }
}

/// Neither journals nor parts, however much they look like them.
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

/// A crash can cut a journal anywhere, or leave zeros.
TEST_F(Checkpoints, EndAtATornLine) {
  leave_run();
  const std::string of_0 = read_text(journal(0)), of_1 = read_text(journal(1));
  const auto lines = [](const std::string& text) { return std::ranges::count(text, '\n'); };
  ASSERT_EQ(lines(of_0), 5);
  for (std::size_t cut = 0; cut <= of_0.size(); ++cut) {
    const std::string torn = of_0.substr(0, cut);
    // Head, tile 0, tile 2, group 0, group 1; a line that lacks but its end can be read, too.
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
  EXPECT_TRUE(look_for_remains(result_).contested);
  EXPECT_EQ(numbers(read()), Numbers{});
  EXPECT_EQ(entries(), before);
}

/// The launcher has killed rank 0, and rank 1 is just ending.
TEST_F(Checkpoints, AreNotReadWhileARankStillWrites) {
  std::unique_ptr<Journal> last;
  Log log("", log_file_);
  {
    Run run(*this, "old", 1);
    run.begin();
    run.file.keep();
    last = std::make_unique<Journal>(result_, id("old"), 1, 2, &*run.matrix, log, [] {});
    last->begin(product, nullptr, extent);
  }
  const auto before = entries();
  EXPECT_TRUE(EarlierRuns(result_).contested());
  EXPECT_EQ(entries(), before);
  last.reset();
  EXPECT_FALSE(EarlierRuns(result_).contested());
}

/// As a dry run does: nothing is removed or taken from a run that begins meanwhile.
TEST_F(Checkpoints, CanBeInspectedWithoutChanges) {
  EXPECT_FALSE(look_for_remains(result_).checkpoint);
  leave_run();
  in_killed_process([&] { (new Run(*this, "useless", 1))->begin(); });
  const auto before = entries();
  const Remains remains = look_for_remains(result_);
  EXPECT_EQ(numbers(remains.checkpoint), (Numbers{0, 1}));
  EXPECT_FALSE(remains.contested);
  EXPECT_EQ(entries(), before);
  const EarlierRuns next(result_);
  EXPECT_FALSE(look_for_remains(result_).checkpoint == std::nullopt);
  EXPECT_FALSE(next.contested());

  // Values that are unknown are not compared.
  const auto compare = [&](const Fingerprint& now, bool stored = true) {
    constexpr std::array<std::string_view, 1> unknown = {"gemm.alpha"};
    expect_same_computation(*remains.checkpoint, now, stored, unknown);
  };
  EXPECT_NO_THROW(compare(product));
  EXPECT_NO_THROW(compare({product[0], product[2]}));
  EXPECT_NO_THROW(compare({product[0], {"gemm.alpha", "3"}, product[2]}));
  EXPECT_THROW(compare({product[0], product[1]}), UsageError);
  EXPECT_THROW(compare(product, false), UsageError);
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

/// Killed once more while it took over what the first had finished.
TEST_F(Checkpoints, OfSeveralRunsAreMerged) {
  leave_run("first", 100);
  in_killed_process([&] {
    const auto earlier = read();
    Run& run = *new Run(*this, "second", 3);
    run.begin(&*earlier);
    run.write(1000);
    run.journals[2]->add(piece(1, std::nullopt));
    run.journals[2]->add(piece(7, std::nullopt));
    run.journals[0]->add(piece(5, 0));  // nobody has the group
  });
  const auto both = read();
  ASSERT_EQ(numbers(both), (Numbers{0, 1, 7}));
  ASSERT_EQ(both->runs.size(), 2u);
  EXPECT_EQ(first_element(*both, both->pieces[0]), 100);
  EXPECT_EQ(first_element(*both, both->pieces[2]), 1000);
  // The first's journals had just been removed, not yet its part file.
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
  EXPECT_FALSE(checkpoint->runs[0].offset);
}

/// Not killed: an error ends the run, its destructors with it.
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

// ---------------------------------------------------------------- what is written

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

/// Seen before any work, not when the disk is full.
TEST_F(Checkpoints, NeedDiskSpaceForTheirJournals) {
  in_killed_process([&] {
    Run& run = *new Run(*this, "old", 1);
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(1);
    run.journals[0]->begin(product, nullptr, {1000, 10, 5});
    Journal large(result_, id("large"), 0, 1, nullptr, log_, [] {});
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
  Journal journal(folder_ / "nowhere/C.h5", id("old"), 0, 1, nullptr, log_, [&] { ++told; });
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
