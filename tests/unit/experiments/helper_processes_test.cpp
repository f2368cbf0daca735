// Helper processes of experiments: how they start, answer and end. /bin/sh stands for the helper of
// an experiment.
#include "experiments/helper_processes.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "experiments/experiment.hpp"

namespace shardstream::experiments {
namespace {

using Clock = std::chrono::steady_clock;

HelperProgram shell(const std::string& script, std::vector<std::string> environment = {}) {
  return {.path = "/bin/sh", .words = {"sh", "-c", script}, .environment = std::move(environment)};
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Whether the process has ended. Nobody may have waited for it yet, so that it is a zombie.
bool has_ended(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  if (!std::getline(file, stat)) return true;
  return stat.substr(stat.rfind(')') + 2, 1) == "Z";
}

bool ends_within_seconds(pid_t pid) {
  const auto begin = Clock::now();
  while (!has_ended(pid) && seconds_since(begin) < 10) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return has_ended(pid);
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

void expect_words(const std::string& message, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << word << ": " << message;
  }
}

ranks::Heartbeat heartbeat;

TEST(HelperProcesses, AnswerInTheirOrderAndOnlyIfAsked) {
  Helpers helpers(shell("while read line; do echo \"$$ $line\"; done"), 3, heartbeat);
  const auto all = helpers.ask(3, "first", 10), two = helpers.ask(2, "second 2", 10);
  ASSERT_EQ(all.size(), 3U);
  ASSERT_EQ(two.size(), 2U);
  std::set<std::string> pids;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string pid = all[i].substr(0, all[i].find(' '));
    EXPECT_EQ(all[i], pid + " first");
    if (i < two.size()) {
      EXPECT_EQ(two[i], pid + " second 2");
    }
    pids.insert(pid);
  }
  EXPECT_EQ(pids.size(), 3U);
}

TEST(HelperProcesses, SendLongAnswers) {
  Helpers helpers(shell("read n; i=0; while [ $i -lt $n ]; do printf '%1000d ' 7; i=$((i+1)); "
                        "done; echo; read end"),
                  1, heartbeat);
  EXPECT_EQ(helpers.ask(1, "500", 10).at(0).size(), 500U * 1001);
}

TEST(HelperProcesses, GetTheEnvironmentWithoutThatOfALauncher) {
  const char* const variables[] = {"PATH=/bin",         "OMPI_COMM_WORLD_RANK=1",
                                   "OMPI_MCA_pmix=x",   "PMI_RANK=1",
                                   "PMIX_RANK=1",       "SLURM_STEP_ID=0",
                                   "SLURM_JOB_ID=7",    "CUDA_VISIBLE_DEVICES=0,1",
                                   "CUDA_VISIBLE=kept", nullptr};
  const HelperProgram program = this_program("x", variables, {"CUDA_VISIBLE_DEVICES=GPU-1"});
  EXPECT_EQ(program.environment,
            (std::vector<std::string>{"PATH=/bin", "SLURM_JOB_ID=7", "CUDA_VISIBLE=kept",
                                      "CUDA_VISIBLE_DEVICES=GPU-1"}));
  EXPECT_EQ(program.words, (std::vector<std::string>{"shardstream", "bench-helper", "x"}));
  Helpers helpers(shell("read line; echo \"$CUDA_VISIBLE_DEVICES ${PMI_RANK-none}\"; read end",
                        program.environment),
                  1, heartbeat);
  EXPECT_EQ(helpers.ask(1, "x", 10).at(0), "GPU-1 none");
}

TEST(HelperProcesses, ThatDieAreReportedWithTheirCause) {
  for (const auto& [script, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"read line; kill -9 $$", {"helper process 1 of 1", "signal 9"}},
           {"read line; exit 3", {"helper process 1 of 1", "exit code 3"}},
           {"read line; echo 'error: no memory'; read end", {"helper process 1 of 1", "no memory"}},
           {"exec < /dev/null > /dev/null; exec sleep 60",
            {"helper process 1 of 1", "connection"}}}) {
    expect_words(message_of([&] {
                   Helpers helpers(shell(script, {"PATH=/bin:/usr/bin"}), 1, heartbeat);
                   (void)helpers.ask(1, "go", 10);
                   (void)helpers.ask(1, "go again", 10);
                 }),
                 words);
  }
}

TEST(HelperProcesses, ThatHangAreReportedAndEnded) {
  pid_t pid = 0;
  const auto begin = Clock::now();
  const std::string message = message_of([&] {
    Helpers helpers(shell("read line; echo $$; trap '' TERM HUP INT; while :; do sleep 1; done",
                          {"PATH=/bin:/usr/bin"}),
                    1, heartbeat);
    pid = std::stoi(helpers.ask(1, "first", 10).at(0));
    (void)helpers.ask(1, "second", 0.1);
  });
  expect_words(message, {"helper process 1 of 1", "'second'", "0.1 s"});
  EXPECT_LT(seconds_since(begin), 5);
  EXPECT_TRUE(ends_within_seconds(pid));
}

TEST(HelperProcesses, ThatCannotStartAreReported) {
  expect_words(message_of([] {
                 const Helpers helpers({"/no/such/program", {"x"}, {}}, 1, heartbeat);
               }),
               {"helper process 1 of 1", "No such file"});
}

TEST(HelperProcesses, EndWithTheExperimentsProcess) {
  for (const int signal : {SIGINT, SIGKILL}) {
    std::array<int, 2> pipe_ends{};
    ASSERT_EQ(pipe(pipe_ends.data()), 0);
    const pid_t experiment = fork();
    if (experiment == 0) {
      Helpers helpers(shell("while read line; do echo $$; done"), 1, heartbeat);
      const pid_t helper = std::stoi(helpers.ask(1, "x", 10).at(0));
      (void)!write(pipe_ends[1], &helper, sizeof helper);
      while (true) pause();
    }
    pid_t helper = 0;
    ASSERT_EQ(read(pipe_ends[0], &helper, sizeof helper), static_cast<ssize_t>(sizeof helper));
    for (const int end : pipe_ends) close(end);
    kill(experiment, signal);
    EXPECT_EQ(waitpid(experiment, nullptr, 0), experiment);
    EXPECT_TRUE(ends_within_seconds(helper));
  }
}

Experiment with_helper(void (*helper)(HelperEnd&)) {
  Experiment experiment{};
  experiment.name = "test";
  experiment.helper = helper;
  return experiment;
}

/// A process that runs `helper`, and the other end of its connection.
struct Forked {
  pid_t pid;
  int socket;
};

Forked forked(void (*helper)(HelperEnd&)) {
  std::array<int, 2> ends_of{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_of.data()), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends_of[1], STDIN_FILENO);
    dup2(ends_of[1], STDOUT_FILENO);
    _exit(static_cast<int>(run_as_helper(with_helper(helper))));
  }
  close(ends_of[1]);
  return {pid, ends_of[0]};
}

/// Sends a line and returns the answer.
std::string asked(int socket, const std::string& line) {
  EXPECT_EQ(write(socket, (line + '\n').c_str(), line.size() + 1),
            static_cast<ssize_t>(line.size() + 1));
  std::string answer;
  for (char letter = 0; read(socket, &letter, 1) == 1 && letter != '\n';) answer += letter;
  return answer;
}

/// Answers each line but "hang" and "throw".
void echo(HelperEnd& end) {
  end.serve([](const std::string& line) {
    if (line == "throw") throw Error("the cause\nof the error");
    while (line == "hang") pause();
    return "re " + line;
  });
}

int exit_code_of(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(HelperEnds, AnswerUntilTheConnectionIsClosed) {
  const Forked helper = forked(echo);
  EXPECT_EQ(asked(helper.socket, "a"), "re a");
  EXPECT_EQ(asked(helper.socket, "b c"), "re b c");
  close(helper.socket);
  EXPECT_EQ(exit_code_of(helper.pid), 0);
}

TEST(HelperEnds, EndAlsoWhileTheyAreBusy) {
  const Forked helper = forked(echo);
  EXPECT_EQ(write(helper.socket, "hang\n", 5), 5);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(waitpid(helper.pid, nullptr, WNOHANG), 0);
  close(helper.socket);
  EXPECT_EQ(exit_code_of(helper.pid), 0);
}

TEST(HelperEnds, ReportErrorsInOneLineAndByTheirExitCode) {
  const Forked helper = forked(echo);
  const std::string answer = asked(helper.socket, "throw");
  EXPECT_TRUE(answer.starts_with("error: the cause")) << answer;
  EXPECT_NE(answer.find("of the error"), std::string::npos) << answer;
  EXPECT_EQ(exit_code_of(helper.pid), static_cast<int>(ExitCode::failed));
  close(helper.socket);
}

TEST(HelperEnds, NeedAnExperimentWithHelpers) {
  expect_words(message_of([] { (void)run_as_helper(with_helper(nullptr)); }),
               {"bench-helper", "test"});
}

TEST(HelperLines, HoldNumbers) {
  const std::vector<std::uint64_t> numbers = {3, 0, 18446744073709551615U};
  EXPECT_EQ(line_of(numbers), "3 0 18446744073709551615");
  EXPECT_EQ(numbers_of(line_of(numbers)), numbers);
  for (const char* const line : {"", "1  2", "1 x", "-1", "18446744073709551616"}) {
    EXPECT_THROW((void)numbers_of(line), Error) << line;
  }
}

}  // namespace
}  // namespace shardstream::experiments
