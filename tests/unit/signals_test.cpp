// The files that signals remove and keep, and the end of the process.
#include "ranks/signals.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "support/temporary_folder.hpp"

namespace shardstream::ranks {
namespace {

namespace fs = std::filesystem;

class Signals : public testing::Test {
 protected:
  /// Does `work` in a child process with three files that a signal removes. Returns how it ended.
  template <class Work>
  int in_process(const Work& work) {
    for (const char* name : {"part", "journal", "trace"}) std::ofstream(folder_ / name) << name;
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open((folder_ / "stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
      RemoveOnSignal remove({folder_ / "part", folder_ / "journal", folder_ / "trace"});
      work(remove);
      ::_exit(99);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }
  void keep(RemoveOnSignal& remove) {
    remove.keep({folder_ / "part", folder_ / "journal"}, "kept{}\n");
  }
  /// The same with the output of the process.
  std::set<std::string> left() {
    std::ifstream file(folder_ / "stderr");
    std::set<std::string> names{std::string(std::istreambuf_iterator<char>(file), {})};
    fs::remove(folder_ / "stderr");
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      names.insert(entry.path().filename());
    }
    return names;
  }
  using Names = std::set<std::string>;

  test::TemporaryFolder folder_;
};

TEST_F(Signals, RemoveAllAndEndTheProcessAsUsual) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    const int status = in_process([&](RemoveOnSignal&) { ::raise(number); });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << status;
    EXPECT_EQ(left(), Names{""});
  }
}

TEST_F(Signals, KeepACheckpointAndReportIt) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    const int status = in_process([&](RemoveOnSignal& remove) {
      std::thread([&] { keep(remove); }).join();
      ::raise(number);
    });
    EXPECT_TRUE(WIFEXITED(status)) << status;
    EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(ExitCode::checkpointed));
    const char* const name = number == SIGTERM  ? " by SIGTERM\n"
                             : number == SIGINT ? " by SIGINT\n"
                                                : " by SIGHUP\n";
    EXPECT_EQ(left(), (Names{std::string("kept") + name, "part", "journal"}));
  }
}

TEST_F(Signals, KeepItWhenTheWatchdogEndsTheProcess) {
  const int status = in_process([&](RemoveOnSignal& remove) {
    keep(remove);
    end_at_once(ExitCode::failed);
  });
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(ExitCode::failed));
  EXPECT_EQ(left(), (Names{"kept\n", "part", "journal"}));
}

/// Another rank without a checkpoint has removed the part file, so there is no checkpoint.
TEST_F(Signals, DoNotReportAMissingCheckpoint) {
  const int status = in_process([&](RemoveOnSignal& remove) {
    keep(remove);
    fs::remove(folder_ / "part");
    ::raise(SIGTERM);
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_EQ(left(), Names{""});
}

TEST_F(Signals, IgnoredSignalsStayIgnored) {
  ::signal(SIGHUP, SIG_IGN);
  const int status = in_process([&](RemoveOnSignal& remove) {
    keep(remove);
    ::raise(SIGHUP);
  });
  ::signal(SIGHUP, SIG_DFL);
  EXPECT_EQ(WEXITSTATUS(status), 99);
  EXPECT_EQ(left(), (Names{"", "part", "journal", "trace"}));
}

TEST_F(Signals, ForgetTheCheckpointWithTheObject) {
  const int status = in_process([&](RemoveOnSignal&) {
    {
      RemoveOnSignal inner({folder_ / "other"});
      inner.keep({folder_ / "other"}, "inner\n");
    }
    ::raise(SIGTERM);
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_EQ(left(), Names{""});
}

}  // namespace
}  // namespace shardstream::ranks
