// The names of outputs: what a result may replace, and that an unfinished one never has its final
// name.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "io/output/dataset_file.hpp"
#include "io/output/part_file.hpp"
#include "io/source/source.hpp"
#include "support/errors.hpp"
#include "support/hdf5_inputs.hpp"
#include "support/result_files.hpp"

namespace shardstream::io {
namespace {

using test::error_of;
using test::make_file;
using test::names;

// ---------------------------------------------------------------- names and their neighbours

TEST_F(ResultFiles, AreRemovedUnlessPublished) {
  {
    ResultFile result(file_, Overwrite::never, uuid, 1 << 20);
    result.attribute("/", "x", 1.0);
    EXPECT_EQ(result.part_path(),
              std::filesystem::path(folder_ / ".result.h5.") += std::string(uuid) + ".part");
    EXPECT_TRUE(std::filesystem::exists(result.part_path()));
    EXPECT_FALSE(std::filesystem::exists(file_));
  }
  EXPECT_EQ(entries(), 0u);
}

TEST_F(ResultFiles, DoNotReplaceACompleteOne) {
  publish_one();
  const auto message = error_of([&] { publish_one(); });
  EXPECT_TRUE(names(message, file_, "complete", "--output.overwrite true"));
  EXPECT_EQ(entries(), 1u);
  publish_one(Overwrite::own);
  EXPECT_EQ(root_text(file_, "status"), "complete");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(ResultFiles, DoNotReplaceOtherFiles) {
  const auto refuse = [&] {
    for (const auto overwrite : {Overwrite::never, Overwrite::own}) {
      EXPECT_TRUE(names(error_of([&] { publish_one(overwrite); }), "--output.overwrite anything"));
    }
  };
  std::ofstream(file_) << "my thesis";
  refuse();
  test::make_file(file_).close();
  refuse();
  std::filesystem::remove(file_);
  publish_one(Overwrite::anything);
  EXPECT_EQ(root_text(file_, "status"), "complete");
}

TEST_F(ResultFiles, DoNotReplaceInputs) {
  const auto input = folder_ / "input.h5";
  std::ofstream(input) << "data";
  std::filesystem::create_hard_link(input, file_);
  const Destination destination{file_, Contents::result, Overwrite::anything, {state_of(input)}};
  EXPECT_TRUE(
      names(error_of([&] { ResultFile(destination, uuid, 1 << 20); }), file_, input, "input"));
  std::filesystem::remove(file_);
  {
    ResultFile result(destination, uuid, 1 << 20);  // the link appears meanwhile
    std::filesystem::create_hard_link(input, file_);
    EXPECT_TRUE(names(error_of([&] { result.publish(); }, ExitCode::failed), file_, "input"));
  }
  EXPECT_TRUE(std::filesystem::equivalent(file_, input));
  EXPECT_EQ(entries(), 2u);
}

/// `generate` replaces its own files, and a run its own.
TEST_F(ResultFiles, DoNotReplaceGeneratedDataOrViceVersa) {
  const auto generate_one = [&](Overwrite overwrite) {
    DatasetFile(file_, overwrite, uuid, "/x", ElementType::f32, {4}).publish();
  };
  generate_one(Overwrite::never);
  error_of([&] { publish_one(Overwrite::own); });
  error_of([&] { generate_one(Overwrite::never); });
  generate_one(Overwrite::own);
  publish_one(Overwrite::anything);
  error_of([&] { generate_one(Overwrite::own); });
  publish_one(Overwrite::own);
}

TEST_F(ResultFiles, NeitherFollowNorReplaceLinks) {
  std::filesystem::create_symlink("/dev/null", file_);
  EXPECT_TRUE(names(error_of([&] { publish_one(Overwrite::own); }), file_, "character device"));
  EXPECT_TRUE(std::filesystem::is_symlink(file_));
  std::ofstream(folder_ / "other") << "my thesis";
  for (const auto* target : {"other", "nowhere"}) {
    std::filesystem::remove(file_);
    std::filesystem::create_symlink(target, file_);
    for (const auto overwrite : {Overwrite::never, Overwrite::own, Overwrite::anything}) {
      EXPECT_TRUE(names(error_of([&] { publish_one(overwrite); }), file_, target, "link"));
    }
    EXPECT_TRUE(std::filesystem::is_symlink(file_));
  }
  EXPECT_EQ(entries(), 2u);
}

TEST_F(ResultFiles, DoNotReplaceAFifoThatAppearedMeanwhile) {
  {
    ResultFile result(file_, Overwrite::own, uuid, 1 << 20);
    ASSERT_EQ(::mkfifo(file_.c_str(), 0666), 0);
    EXPECT_TRUE(names(error_of([&] { result.publish(); }, ExitCode::failed), file_, "FIFO"));
  }
  EXPECT_TRUE(std::filesystem::is_fifo(file_));
}

TEST_F(ResultFiles, ReplaceAPartialOne) {
  leave_partial();
  ASSERT_EQ(root_text(file_, "status"), "partial");
  publish_one();
  EXPECT_EQ(root_text(file_, "status"), "complete");
}

TEST_F(ResultFiles, DoNotReplaceAFileThatAppearedMeanwhile) {
  {
    ResultFile result(file_, Overwrite::never, uuid, 1 << 20);
    std::ofstream(file_) << "someone else's";
    EXPECT_TRUE(names(error_of([&] { result.publish(); }, ExitCode::failed), file_, "exists"));
  }
  EXPECT_EQ(entries(), 1u);
  EXPECT_EQ(std::filesystem::file_size(file_), 14u);
}

TEST_F(ResultFiles, ErrorsNameTheFolder) {
  // Both the function that creates the file and the one that only checks.
  const auto refusal = [&](const std::string& path) {
    const auto message = error_of([&] { ResultFile(path, Overwrite::never, uuid, 0); });
    EXPECT_EQ(error_of([&] { expect_destination({path, Contents::result}, 0); }), message);
    return message;
  };
  EXPECT_TRUE(names(refusal(folder_ / "no/such/r.h5"), folder_ / "no/such"));
  EXPECT_TRUE(names(refusal(folder_.path().string()), folder_.path().string(), "folder"));
  EXPECT_TRUE(names(refusal(folder_ / ""), folder_ / ""));
  EXPECT_TRUE(names(refusal(""), "''"));
  EXPECT_TRUE(names(refusal(folder_ / std::string(240, 'n')), std::string(240, 'n'), "long"));
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0555), 0);
  const bool root = ::geteuid() == 0;
  if (root) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const auto message = refusal(file_);
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_TRUE(names(message, folder_.path().string(), "writable"));
}

TEST_F(ResultFiles, NeedDiskSpace) {
  const auto message =
      error_of([&] { ResultFile(file_, Overwrite::never, uuid, std::uint64_t{1} << 60); });
  EXPECT_TRUE(names(message, folder_.path().string(), "1 EiB", "free"));
  EXPECT_TRUE(names(error_of([&] {
                      expect_destination({file_, Contents::result}, std::uint64_t{1} << 60);
                    }),
                    "1 EiB", "free"));
  expect_destination({file_, Contents::result}, 1 << 20);
  EXPECT_EQ(entries(), 0u);
}

// ---------------------------------------------------------------- stale part files

TEST_F(ResultFiles, RemovePartFilesOfDeadWritersOnly) {
  const std::string others[] = {"11111111-1111-4111-8111-111111111111",
                                "22222222-2222-4222-8222-222222222222"};
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto* const abandoned = new ResultFile(file_, Overwrite::never, others[0], 1 << 20);
    abandoned->attribute("/", "x", 1.0);
    ::_exit(0);  // as if killed: no destructor runs
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const std::string dead = part_path_of(file_, others[0]);
  ASSERT_TRUE(std::filesystem::exists(dead));
  std::ofstream(folder_ / ".result.h5.old.h5.dead.part") << "of a longer name";
  const ResultFile living(file_, Overwrite::never, uuid, 1 << 20);
  EXPECT_FALSE(std::filesystem::exists(dead));
  const ResultFile another(file_, Overwrite::never, others[1], 1 << 20);
  EXPECT_TRUE(std::filesystem::exists(living.part_path()));
  EXPECT_TRUE(std::filesystem::exists(folder_ / ".result.h5.old.h5.dead.part"));
}

TEST_F(ResultFiles, LetHdf5LockOnRequest) {
  // HDF5 reads the variable when it starts, so another value needs another process.
  const auto self = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto command = "HDF5_USE_FILE_LOCKING=TRUE " + self +
                       " --gtest_brief=1 --gtest_filter=ResultFiles.DoNotReplaceACompleteOne"
                       ":ResultFiles.RemovePartFilesOfDeadWritersOnly >/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace shardstream::io
