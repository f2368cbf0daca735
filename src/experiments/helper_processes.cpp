#include "experiments/helper_processes.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "core/descriptor.hpp"
#include "core/failure.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "experiments/experiment.hpp"
#include "ranks/session.hpp"

namespace shardstream::experiments {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view error_mark = "error: ";  // begins a line that is no answer
constexpr milliseconds grace{1000};           // for a helper to end after the connection is closed
constexpr milliseconds limit_of_kill{10000};  // for Linux to end a process
constexpr milliseconds between_looks{5};

/// The arguments of posix_spawn() for a process with `socket` as its standard input and output and
/// without blocked signals.
class SpawnArguments {
 public:
  explicit SpawnArguments(int socket) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, socket, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, socket, STDOUT_FILENO);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnArguments() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnArguments(const SpawnArguments&) = delete;
  SpawnArguments& operator=(const SpawnArguments&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Removes the first line of `text` and returns it without its end; nothing if no line is complete.
std::optional<std::string> take_line(std::string& text) {
  const auto end = text.find('\n');
  if (end == text.npos) return std::nullopt;
  std::string line = text.substr(0, end);
  text.erase(0, end + 1);
  return line;
}

/// Sends `line` and its end. False if the other side has closed the connection.
bool send_line(int socket, std::string line) {
  line += '\n';
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t sent = ::send(socket, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent > 0) rest.remove_prefix(static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EINTR) return false;
  }
  return true;
}

/// "was ended by signal 9 (Killed)". `status` is that of waitpid(2).
std::string words_on_end(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  return fmt::format("was ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

}  // namespace

/// One helper. `name` is the subject of messages: "helper process 2 of 4".
class Helpers::Helper {
 public:
  Helper(const HelperProgram& program, std::string name);
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  /// Closes the connection, so that the helper ends. It has `grace` from then on.
  void close() {
    if (socket_.valid()) limit_ = Clock::now() + grace;
    socket_.close();
  }
  int descriptor() const { return socket_.get(); }
  void send(const std::string& command);
  /// An answer if one has come. Does not wait.
  std::optional<std::string> answer();
  [[noreturn]] void fail_as_silent(const std::string& command, double seconds) const;

 private:
  bool ends_before(Clock::time_point limit);
  [[noreturn]] void fail_as_ended();

  std::string name_, received_;
  Descriptor socket_;
  pid_t pid_ = 0;
  std::optional<int> status_ = {};  ///< of waitpid(2)
  Clock::time_point limit_ = {};    ///< for the end of the helper after close()
};

Helpers::Helper::Helper(const HelperProgram& program, std::string name) : name_(std::move(name)) {
  const auto fail = [&](int error) {
    throw Error(fmt::format(
        "cannot start {} ({}): raise the limit of processes (ulimit -u) or of open files "
        "(ulimit -n)",
        name_, errno_text(error)));
  };
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail(errno);
  socket_ = Descriptor(ends[0]);
  const Descriptor other(ends[1]);
  const SpawnArguments arguments(other.get());
  std::vector<std::string> words = program.words, environment = program.environment;
  const int error =
      posix_spawn(&pid_, program.path.c_str(), arguments.actions(), arguments.attributes(),
                  pointers_to(words).data(), pointers_to(environment).data());
  if (error != 0) fail(error);
}

Helpers::Helper::~Helper() {
  close();
  if (ends_before(limit_)) return;
  kill(pid_, SIGKILL);
  if (!ends_before(Clock::now() + limit_of_kill)) {
    warn_plainly("a helper process does not end, since the driver of the GPU does not release it");
  }
}

bool Helpers::Helper::ends_before(Clock::time_point limit) {
  while (!status_) {
    int status = 0;
    const pid_t ended = waitpid(pid_, &status, WNOHANG);
    if (ended == pid_ || (ended < 0 && errno != EINTR)) {  // < 0: SIGCHLD is ignored
      status_ = status;
    } else if (Clock::now() >= limit) {
      return false;
    } else {
      std::this_thread::sleep_for(between_looks);
    }
  }
  return true;
}

void Helpers::Helper::send(const std::string& command) {
  if (!send_line(socket_.get(), command)) fail_as_ended();
}

std::optional<std::string> Helpers::Helper::answer() {
  std::array<char, 65536> buffer{};
  while (true) {
    if (auto line = take_line(received_)) {
      if (!line->starts_with(error_mark)) return line;
      throw Error(fmt::format("{}: {}", name_, line->substr(error_mark.size())));
    }
    const ssize_t bytes = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (bytes > 0) {
      received_.append(buffer.data(), static_cast<std::size_t>(bytes));
    } else if (bytes < 0 && errno == EAGAIN) {
      return std::nullopt;
    } else if (bytes == 0 || errno != EINTR) {
      fail_as_ended();
    }
  }
}

void Helpers::Helper::fail_as_ended() {
  const bool has_ended = ends_before(Clock::now() + grace);
  throw Error(
      fmt::format("{} {}: see its message above, if there is one, and check whether the memory of "
                  "the host suffices",
                  name_, has_ended ? words_on_end(*status_) : "has closed its connection"));
}

void Helpers::Helper::fail_as_silent(const std::string& command, double seconds) const {
  throw Error(
      fmt::format("{} has not answered {} within {:g} s and is ended: check whether the GPU "
                  "responds and who else uses it (nvidia-smi)",
                  name_, excerpt(command), seconds));
}

HelperProgram this_program(std::string_view experiment, const char* const* environment,
                           const std::vector<std::string>& changes) {
  std::vector<std::string> variables = ranks::environment_without_launcher(environment);
  std::erase_if(variables, [&](const std::string& variable) {
    const std::string name = variable.substr(0, variable.find('=') + 1);
    return std::ranges::any_of(changes, [&](const auto& each) { return each.starts_with(name); });
  });
  variables.insert(variables.end(), changes.begin(), changes.end());
  return {.path = "/proc/self/exe",
          .words = {"shardstream", std::string(helper_command), std::string(experiment)},
          .environment = std::move(variables)};
}

Helpers::Helpers(const HelperProgram& program, std::size_t count, ranks::Heartbeat& heartbeat)
    : heartbeat_(heartbeat) {
  for (std::size_t i = 1; i <= count; ++i) {
    helpers_.push_back(
        std::make_unique<Helper>(program, fmt::format("helper process {} of {}", i, count)));
  }
}

Helpers::~Helpers() {
  for (const auto& helper : helpers_) helper->close();  // so that they end at the same time
}

std::vector<std::string> Helpers::ask(std::size_t count, const std::string& command,
                                      double seconds) {
  expect(count <= size(), "only helpers that exist are asked");
  for (std::size_t i = 0; i < count; ++i) helpers_[i]->send(command);
  std::vector<std::optional<std::string>> answers(count);
  const auto limit = Clock::now() + std::chrono::duration<double>(seconds);
  while (true) {
    std::vector<pollfd> waiting;
    for (std::size_t i = 0; i < count; ++i) {
      if (!answers[i]) answers[i] = helpers_[i]->answer();
      if (answers[i]) continue;
      if (Clock::now() > limit) helpers_[i]->fail_as_silent(command, seconds);
      waiting.push_back({helpers_[i]->descriptor(), POLLIN, 0});
    }
    if (waiting.empty()) break;
    constexpr int interval = 50;  // milliseconds
    ::poll(waiting.data(), waiting.size(), interval);
    heartbeat_.move();
  }
  std::vector<std::string> lines;
  for (auto& answer : answers) lines.push_back(*std::move(answer));
  return lines;
}

HelperEnd::HelperEnd() {
  struct stat input {};
  if (fstat(STDIN_FILENO, &input) != 0 || !S_ISSOCK(input.st_mode)) {
    throw UsageError(
        fmt::format("{} is internal, and bench starts it itself: see shardstream bench --list",
                    helper_command));
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  close_inherited_descriptors();
  std::thread([] {
    pollfd connection{STDIN_FILENO, POLLRDHUP, 0};
    while (::poll(&connection, 1, -1) < 0 && errno == EINTR) {
    }
    _exit(static_cast<int>(ExitCode::done));
  }).detach();
}

void HelperEnd::serve(const std::function<std::string(const std::string& command)>& answer) {
  while (true) send_line(STDOUT_FILENO, answer(receive()));
}

void HelperEnd::report(std::string_view message) {
  send_line(STDOUT_FILENO, std::string(error_mark) + printable(message));
}

std::string HelperEnd::receive() {
  std::array<char, 4096> buffer{};
  while (true) {
    if (auto line = take_line(received_)) return *std::move(line);
    const ssize_t bytes = recv(STDIN_FILENO, buffer.data(), buffer.size(), 0);
    if (bytes > 0) received_.append(buffer.data(), static_cast<std::size_t>(bytes));
    if (bytes == 0 || (bytes < 0 && errno != EINTR)) _exit(static_cast<int>(ExitCode::done));
  }
}

std::string line_of(const std::vector<std::uint64_t>& numbers) {
  return join(numbers, " ");
}

std::vector<std::uint64_t> numbers_of(std::string_view line) {
  std::vector<std::uint64_t> numbers;
  for (const std::string_view word : split(line, ' ')) {
    std::uint64_t number = 0;
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, number);
    if (error != std::errc() || stop != end) {
      throw Error(
          fmt::format("a helper process has answered {}, which is not a list of numbers: "
                      "check whether a library prints to standard output",
                      excerpt(line)));
    }
    numbers.push_back(number);
  }
  return numbers;
}

ExitCode run_as_helper(const Experiment& experiment) {
  if (experiment.helper == nullptr) {
    throw UsageError(
        fmt::format("{} {} cannot be started: this experiment has no helper processes, or this "
                    "program was built without CUDA",
                    helper_command, experiment.name));
  }
  HelperEnd end;
  try {
    experiment.helper(end);
    return ExitCode::done;
  } catch (const std::exception& error) {
    end.report(message_of(error));
    return code_of(error);
  }
}

}  // namespace shardstream::experiments
