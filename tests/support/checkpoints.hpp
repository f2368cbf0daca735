// The fixture of the tests of checkpoints: runs that end with finished pieces.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "io/hdf5/result_file.hpp"
#include "io/output/checkpoint.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::io {

namespace fs = std::filesystem;

inline constexpr std::uint64_t rows = 8, columns = 6;
inline const Fingerprint product = {{"m", "8"}, {"gemm.alpha", "2"}, {"input.a", "a\xff\n.h5:/A"}};

inline FinishedPiece piece(std::uint64_t number, std::optional<std::uint64_t> group) {
  return {.number = number, .group = group, .record = {number + 1, 0, UINT64_MAX}};
}
inline const JournalExtent extent{.pieces = 10, .groups = 10, .record = 3};

/// The UUID of the run `name`, which has at most 6 letters.
inline std::string id(const std::string& name) {
  std::string hex;
  for (const char c : name) hex += "0123456789abcdef"[c % 16];
  return "12345678-1234-4123-8123-" + hex + std::string(12 - hex.size(), '0');
}

inline std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::uint64_t> numbers(const std::optional<Checkpoint>& checkpoint) {
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
    std::vector<RangeWriter> matrices;
    std::vector<std::unique_ptr<Journal>> journals;
    int told = 0;

    Run(Checkpoints& test, const std::string& uuid, int ranks, bool stores = true)
        : file(test.result_, Overwrite::never, id(uuid), 1 << 16) {
      if (stores) {
        const auto offset = file.dataset("/results", "C", ElementType::f32, {rows, columns});
        matrices.emplace_back(file.part_path(), offset, ElementType::f32, columns);
      }
      for (int rank = 0; rank < ranks; ++rank) {
        journals.push_back(std::make_unique<Journal>(test.result_, id(uuid), rank, ranks, matrices,
                                                     test.log_, [this] { ++told; }));
      }
    }
    void begin(const Checkpoint* earlier = nullptr) {
      for (auto& journal : journals) journal->begin(product, earlier, extent);
    }
    void write(float first) const {
      std::vector<float> values(rows * columns);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
      matrices[0].write(0, std::as_bytes(std::span(values)));
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
  /// A killed run of two ranks. Pieces 0 and 1 are finished; piece 2 is not, since one rank has not
  /// verified its inputs.
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

  /// The first element of the whole result in the part file that contains `piece`.
  static float first_element(const Checkpoint& checkpoint, const Checkpoint::RunPiece& piece) {
    const Checkpoint::Run& run = checkpoint.runs.at(piece.run);
    float first = 0;
    std::ifstream file(run.part, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(run.offsets.at(0)));
    file.read(reinterpret_cast<char*>(&first), sizeof(first));
    EXPECT_TRUE(file.good());
    return first;
  }

  test::TemporaryFolder folder_;
  fs::path result_ = folder_ / "C.h5";
  std::FILE* log_file_ = std::tmpfile();
  Log log_{"", log_file_};
};

}  // namespace shardstream::io
