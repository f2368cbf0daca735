#include "process/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "process/descendants.hpp"

namespace shardstream::process {
namespace {

// Exit codes of the supervisor.
constexpr int ended = 0, killed = 1, failed = 2;

/// Pointers to the strings, with a null pointer at the end, as exec takes them.
std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

int code_of(int status) {
  constexpr int after_signal = 128;
  return WIFSIGNALED(status) ? after_signal + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Makes `streams` the standard ones, and closes all other descriptors but `kept`.
void keep_only(const Streams& streams, int kept) {
  dup2(streams.in >= 0 ? streams.in : open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(streams.out, STDOUT_FILENO);
  dup2(streams.err, STDERR_FILENO);
  close_inherited_descriptors(kept);
}

constexpr int cannot_execute = 126;  // as in a shell

/// Writes to standard error.
void complain(const Program& program, int error) {
  Log().error(fmt::format("'{}' cannot be executed ({}): {}", program.path.string(),
                          errno_text(error), program.remedy));
}

/// Executes the program, in a child of the supervisor.
[[noreturn]] void execute(const Program& program, pid_t supervisor) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // if the supervisor is killed
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::vector<std::string> words = program.words, environment = program.environment;
  if (getppid() == supervisor) {
    execve(program.path.c_str(), pointers_to(words).data(), pointers_to(environment).data());
    complain(program, errno);
  }
  _exit(cannot_execute);
}

/// Waits until the program has ended, or until the other end of the socket asks for the end of the
/// child or is closed.
void await_end(pid_t program, int socket, int child_signals, const OnReaped& on_reaped) {
  bool is_over = false;
  const auto note = [&](pid_t pid, int status) {
    is_over = is_over || pid == program;
    on_reaped(pid, status);
  };
  while (true) {
    signalfd_siginfo info{};
    [[maybe_unused]] const auto bytes = read(child_signals, &info, sizeof info);
    reap(note);
    std::array<pollfd, 2> sources = {pollfd{socket, POLLIN, 0}, pollfd{child_signals, POLLIN, 0}};
    if (is_over || (poll(sources.data(), sources.size(), -1) > 0 && sources[0].revents != 0)) {
      return;
    }
  }
}

/// The supervisor. It blocks all signals, since it ends last.
[[noreturn]] void supervise(const Program& program, int socket) {
  setpgid(0, 0);
  prctl(PR_SET_NAME, "supervisor");
  adopt_orphans();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  const int child_signals = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
  const pid_t supervisor = getpid(), started = fork();
  if (started == 0) execute(program, supervisor);
  const auto send_code = [&](int code) { send(socket, &code, sizeof code, MSG_NOSIGNAL); };
  const auto report = [&](pid_t pid, int status) {
    if (pid == started) send_code(code_of(status));
  };
  if (started > 0) {
    await_end(started, socket, child_signals, report);
  } else {
    complain(program, errno);
    send_code(cannot_execute);
  }
  _exit(end_descendants(report) ? killed : ended);
}

}  // namespace

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

Child::Child(const Program& program, const Streams& streams) {
  const auto fail = [&] {
    throw Error(fmt::format("cannot start '{}' ({}): raise the limit of processes or of open files",
                            program.words.at(0), errno_text(errno)));
  };
  adopt_orphans();
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail();
  socket_ = Descriptor(ends[0]);
  const Descriptor other(ends[1]);
  pid_ = fork();
  if (pid_ < 0) fail();
  if (pid_ > 0) return;
  try {
    keep_only(streams, other.get());
    supervise(program, other.get());
  } catch (...) {  // the copy must not continue as this process
    _exit(failed);
  }
}

void Child::receive() {
  int code = 0;
  const ssize_t bytes = recv(socket_.get(), &code, sizeof code, MSG_DONTWAIT);
  if (bytes == sizeof code) code_ = code;
  if (bytes != 0 || is_over()) return;
  int status = 0;  // the other end is closed: the supervisor has ended
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  has_killed_ = code_of(status) == killed;
  if (WIFEXITED(status) && WEXITSTATUS(status) != failed) return;
  // The supervisor was killed or lacked memory. Its children are now children of this process.
  has_killed_ = end_descendants([](pid_t, int) {});
  if (!code_) code_ = code_of(status);
}

void Child::end() {
  shutdown(socket_.get(), SHUT_WR);
}

}  // namespace shardstream::process
