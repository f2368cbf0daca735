// Crashes inside HDF5 on a named file end with one sentence; other crashes end as usual.
#include "io/hdf5/crash.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "fuzz/fuzz.hpp"
#include "fuzz/sealed.hpp"
#include "io/hdf5/handles.hpp"
#include "io/source/dataset/planned_source.hpp"
#include "support/errors.hpp"
#include "support/hdf5_inputs.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::io::hdf5 {
namespace {

constexpr int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

/// An earlier handler: crashes inside HDF5 must not reach it, all others must.
constexpr int by_earlier_handler = 77;
void earlier_handler(int, siginfo_t*, void*) {
  _exit(by_earlier_handler);
}

/// Reads an address without a page, in a way that is not optimised away.
void fault() {
  volatile const int* const nowhere = reinterpret_cast<const int*>(std::uintptr_t{8});
  static_cast<void>(*nowhere);
}

class Hdf5Crash : public testing::Test {
 protected:
  struct End {
    int status;
    std::string said;
    bool exits(ExitCode code) const {
      return WIFEXITED(status) && WEXITSTATUS(status) == static_cast<int>(code);
    }
    bool dies_by(int number) const { return WIFSIGNALED(status) && WTERMSIG(status) == number; }
  };

  /// The end of a child process that does `work`. Its handlers are the default ones, except those
  /// that `prepare` installs before HDF5 is used.
  template <class Prepare, class Work>
  End in_child(const Prepare& prepare, const Work& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open(stderr_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
      const rlimit none{0, 0};
      ::setrlimit(RLIMIT_CORE, &none);
      for (const int number : signals) ::signal(number, SIG_DFL);
      prepare();
      work();
      ::_exit(99);
    }
    End end{};
    EXPECT_EQ(::waitpid(child, &end.status, 0), child);
    std::ifstream file(stderr_);
    end.said = {std::istreambuf_iterator<char>(file), {}};
    return end;
  }
  template <class Work>
  End in_child(const Work& work) {
    return in_child([] {}, work);
  }

  static void install_earlier() {
    struct sigaction action {};
    action.sa_sigaction = earlier_handler;
    action.sa_flags = SA_SIGINFO;
    for (const int number : signals) ::sigaction(number, &action, nullptr);
  }

  test::TemporaryFolder folder_;
  std::string stderr_ = folder_ / "stderr";
};

void expect_sentence(const std::string& said, const std::string& signal,
                     const std::string& file = "data.h5") {
  EXPECT_EQ(said.find("error: "), 0U) << said;
  EXPECT_EQ(said.find('\n'), said.size() - 1) << said;
  EXPECT_TRUE(test::names(said, "'" + file + "'", "HDF5", signal));
}

TEST_F(Hdf5Crash, EndsWithASentenceThatNamesTheFile) {
  const char* const names[] = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT"};
  for (std::size_t i = 0; i < std::size(signals); ++i) {
    const End end = in_child([&] {
      const AtWork at_work("data.h5", Stage::opening);
      const Lock lock;
      ::raise(signals[i]);
    });
    EXPECT_TRUE(end.exits(ExitCode::usage)) << names[i] << ' ' << end.status;
    expect_sentence(end.said, names[i]);
  }
}

TEST_F(Hdf5Crash, InAReadingThreadEndsWithExitCodeOne) {
  const End end = in_child(install_earlier, [] {
    std::thread([] {
      const AtWork outer("other.h5", Stage::opening);
      const AtWork at_work("data.h5", Stage::reading);
      const Lock lock;
      fault();
    }).join();
  });
  EXPECT_TRUE(end.exits(ExitCode::failed)) << end.status;
  expect_sentence(end.said, "SIGSEGV");
}

/// In the newest format, the header of a group whose links are in a heap at an invalid address.
TEST_F(Hdf5Crash, OnADamagedFileIsItsFault) {
  const std::string path = folder_ / "data.h5";
  in_child([&] {
    const Lock lock;
    const Properties access(H5Pcreate(H5P_FILE_ACCESS), "access");
    check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST), "bounds");
    const File file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), "file");
    test::make_dataset(file, "x", H5T_NATIVE_FLOAT, {{4}}, H5T_NATIVE_FLOAT, nullptr);
  });
  std::string bytes = fuzz::read_file(path);
  const auto blocks = fuzz::sealed_blocks(bytes);
  const auto heap = bytes.find(std::string(16, '\xff'), bytes.find("OHDR"));
  ASSERT_NE(heap, bytes.npos);
  bytes[heap + 5] = '\xf7';
  fuzz::seal(bytes, blocks);
  fuzz::write_file(path, bytes);
  const End end = in_child([&] {
    try {
      open_dataset_source(path, "/x", {});
    } catch (const UsageError&) {
      ::_exit(static_cast<int>(ExitCode::usage));
    }
  });
  EXPECT_TRUE(end.exits(ExitCode::usage)) << end.status << end.said;
  // A later HDF5 may find the damage by itself.
  if (H5_VERS_MAJOR == 1 && H5_VERS_MINOR == 10) expect_sentence(end.said, "SIGSEGV", path);
}

/// The handler needs its own stack.
TEST_F(Hdf5Crash, MayBeAnOverflowOfTheStack) {
  struct Recursion {
    static int deeper(int depth) {
      volatile char room[256] = {};
      room[0] = static_cast<char>(depth);
      return depth < 0 ? 0 : deeper(depth + 1) + room[0];
    }
  };
  const End end = in_child([] {
    const rlimit small{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_STACK, &small);
    const AtWork at_work("data.h5", Stage::opening);
    const Lock lock;
    ::_exit(Recursion::deeper(0));
  });
  EXPECT_TRUE(end.exits(ExitCode::usage)) << end.status;
  expect_sentence(end.said, "SIGSEGV");
}

/// The sentence has no control characters and begins with the rank. The process ends by the given
/// function.
TEST_F(Hdf5Crash, EndsAsTheProgramSays) {
  const End end = in_child([] {
    set_crash_end({.prefix = "rank 3: ",
                   .wait = std::chrono::milliseconds(1),
                   .announce = [] { EXPECT_EQ(::write(STDERR_FILENO, "ending\n", 7), 7); },
                   .end = [](ExitCode) { ::_exit(42); }});
    const AtWork at_work("a\nb\x1b.h5", Stage::reading);
    const Lock lock;
    fault();
  });
  EXPECT_TRUE(WIFEXITED(end.status) && WEXITSTATUS(end.status) == 42) << end.status;
  EXPECT_EQ(end.said.find("ending\nrank 3: error: 'a\\x0ab\\x1b.h5'"), 0U) << end.said;
}

/// The crash is outside HDF5, or inside without a file that is being read.
TEST_F(Hdf5Crash, ElsewhereKillsTheProcessByItsSignal) {
  for (const int number : signals) {
    const End after = in_child([&] {
      const AtWork at_work("data.h5", Stage::opening);
      { const Lock lock; }
      ::raise(number);
    });
    EXPECT_TRUE(after.dies_by(number)) << number << ' ' << after.status;
    EXPECT_EQ(after.said, "");
    const End without_file = in_child([&] {
      const Lock lock;
      ::raise(number);
    });
    EXPECT_TRUE(without_file.dies_by(number)) << number << ' ' << without_file.status;
  }
  const End aborted = in_child([] {
    { const Lock lock; }
    std::abort();
  });
  EXPECT_TRUE(aborted.dies_by(SIGABRT)) << aborted.status;
  const End faulted = in_child([] {
    { const Lock lock; }
    fault();
  });
  EXPECT_TRUE(faulted.dies_by(SIGSEGV)) << faulted.status;
}

TEST_F(Hdf5Crash, ElsewhereGoesToTheEarlierHandler) {
  const auto ends = [&](const auto& crash) {
    const End end = in_child(install_earlier, [&] {
      const AtWork at_work("data.h5", Stage::opening);
      { const Lock lock; }
      crash();
    });
    return WIFEXITED(end.status) ? WEXITSTATUS(end.status) : -1;
  };
  EXPECT_EQ(ends(fault), by_earlier_handler);
  for (const int number : signals) {
    EXPECT_EQ(ends([&] { ::raise(number); }), by_earlier_handler) << number;
  }
  // A crash of another thread is not in HDF5 either.
  const End other = in_child(install_earlier, [] {
    const AtWork at_work("data.h5", Stage::opening);
    const Lock lock;
    std::thread(fault).join();
  });
  EXPECT_TRUE(WIFEXITED(other.status) && WEXITSTATUS(other.status) == by_earlier_handler)
      << other.status;
}

/// After an earlier handler has returned, the next crash inside HDF5 is still handled.
TEST_F(Hdf5Crash, IsStillHandledAfterAnEarlierHandlerHasReturned) {
  const End end = in_child([] { ::signal(SIGSEGV, [](int) {}); },
                           [] {
                             { const Lock lock; }
                             ::raise(SIGSEGV);
                             const AtWork at_work("data.h5", Stage::opening);
                             const Lock lock;
                             fault();
                           });
  EXPECT_TRUE(end.exits(ExitCode::usage)) << end.status;
  expect_sentence(end.said, "SIGSEGV");
}

}  // namespace
}  // namespace shardstream::io::hdf5
