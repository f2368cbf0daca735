#include "scale/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::scale {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto poll_interval = milliseconds(20);
// Time for ranks to remove their part files, and for MPI launchers to clean up.
constexpr auto grace = seconds(15);

constexpr std::array signals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

sigset_t signal_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

double utc_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The arguments of exec, allocated before the fork.
class Words {
 public:
  explicit Words(const std::vector<std::string>& words) : words_(words) {
    for (std::string& word : words_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
  }
  char** get() { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

/// Executes the program in the child after fork(). Makes only async-signal-safe calls.
[[noreturn]] void become(char* const* words, char* const* environment, const char* program, int log,
                         pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // the launcher ends its ranks
  const int nothing = open("/dev/null", O_RDONLY);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (getppid() == parent && nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 &&
      dup2(log, STDOUT_FILENO) >= 0 && dup2(log, STDERR_FILENO) >= 0) {
    execve(program, words, environment);
  }
  constexpr int cannot_execute = 126;
  _exit(cannot_execute);
}

/// The child processes: the command and, since this process is a subreaper, orphaned descendants of
/// it.
std::vector<pid_t> children() {
  std::ifstream file(fmt::format("/proc/self/task/{}/children", getpid()));
  std::vector<pid_t> found;
  for (pid_t child = 0; file >> child;) found.push_back(child);
  return found;
}

/// Reaps all children that have ended. Returns true and sets `status` if `pid` is one of them.
bool reap(pid_t pid, int& status) {
  bool found = false;
  int one = 0;
  for (pid_t ended = 0; (ended = waitpid(-1, &one, WNOHANG)) > 0;) {
    if (ended != pid) continue;
    status = one;
    found = true;
  }
  return found;
}

/// Ends all children and waits until none is left.
void end_children() {
  int ignored = 0;
  const auto until = Clock::now() + grace;
  for (const pid_t child : children()) kill(child, SIGTERM);
  while (!children().empty()) {
    reap(-1, ignored);
    if (Clock::now() > until) {
      for (const pid_t child : children()) kill(child, SIGKILL);
    }
    std::this_thread::sleep_for(poll_interval);
  }
}

}  // namespace

Interrupts::Interrupts() {
  const sigset_t set = signal_set();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = Descriptor(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signals_.valid()) throw Error(fmt::format("signalfd failed: {}", errno_text(errno)));
}

Interrupts::~Interrupts() {
  const sigset_t set = signal_set();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

Interrupts::Request Interrupts::request() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const bool warning = info.ssi_signo == SIGUSR1 ||
                         (info.ssi_signo == SIGTERM && std::getenv("SLURM_JOB_ID") != nullptr);
    request_ = warning && request_ == Request::none ? Request::stop_after_point : Request::stop_now;
  }
  return request_;
}

std::optional<std::filesystem::path> find_program(const std::string& program) {
  const auto usable = [](const std::filesystem::path& path) {
    return access(path.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(path);
  };
  if (program.find('/') != std::string::npos) {
    return usable(program) ? std::optional(std::filesystem::path(program)) : std::nullopt;
  }
  const char* const path = std::getenv("PATH");
  for (const auto folder : split(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    auto candidate = std::filesystem::path(folder.empty() ? "." : folder) / program;
    if (usable(candidate)) return candidate;
  }
  return std::nullopt;
}

Ended run(const Command& command, Interrupts& interrupts) {
  const auto program = find_program(command.words.at(0));
  if (!program) throw Error(fmt::format("there is no program '{}'", command.words[0]));
  const Descriptor log(command.log, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (!log.valid()) {
    throw Error(fmt::format("cannot write '{}': {}", command.log.string(), errno_text(errno)));
  }
  Words words(command.words), environment(command.environment);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  Ended ended{.utc_start = utc_now()};
  const auto start = Clock::now();
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0)
    throw Error(fmt::format("cannot start '{}': {}", command.words[0], errno_text(errno)));
  if (pid == 0) become(words.get(), environment.get(), program->c_str(), log.get(), parent);
  setpgid(pid, pid);

  int status = 0;
  std::optional<Clock::time_point> ending;  // since SIGTERM
  while (!reap(pid, status)) {
    const auto now = Clock::now();
    if (!ending) {
      ended.timed_out = now - start > std::chrono::duration<double>(command.timeout);
      ended.interrupted = interrupts.request() == Interrupts::Request::stop_now;
      if (ended.timed_out || ended.interrupted) {
        kill(-pid, SIGTERM);
        ending = now;
      }
    } else if (now - *ending > grace) {
      kill(-pid, SIGKILL);
    }
    std::this_thread::sleep_for(poll_interval);
  }
  ended.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  ended.utc_end = utc_now();
  ended.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  end_children();
  return ended;
}

}  // namespace shardstream::scale
