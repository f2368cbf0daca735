#include "report/page/child.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>

#include "core/descriptor.hpp"
#include "core/error.hpp"

namespace shardstream::report::page {
namespace {

using Clock = std::chrono::steady_clock;

/// The ends of this process and of the child. They are sockets, since writing to a socket can avoid
/// SIGPIPE.
struct Ends {
  Descriptor here, child;
};

Ends make_ends() {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    throw Error(fmt::format("cannot start another program ({})", errno_text(errno)));
  }
  return {Descriptor(pair[0]), Descriptor(pair[1])};
}

/// The child, or 0 if PATH has no such program.
pid_t spawn(const std::vector<std::string>& words, const Ends& in, const Ends& out,
            const Ends& err) {
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::string locale = "LC_ALL=C";  // numbers have a point
  const char* const path = ::getenv("PATH");
  std::string search = fmt::format("PATH={}", path == nullptr ? "" : path);
  std::array<char*, 3> environment = {locale.data(), search.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.child.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out.child.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err.child.get(), STDERR_FILENO);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, words.front().c_str(), &actions, nullptr,
                                   arguments.data(), environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT || error == EACCES || error == ENOTDIR) return 0;
  if (error != 0) {
    throw Error(fmt::format("cannot start '{}' ({})", words.front(), errno_text(error)));
  }
  return child;
}

/// Reads the bytes that are available; false at the end of the stream.
bool read_some(int from, std::string& to) {
  std::array<char, 65536> buffer{};
  const auto count = ::read(from, buffer.data(), buffer.size());
  if (count > 0) to.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && (errno == EINTR || errno == EAGAIN));
}

/// Writes `input` and reads both outputs until the child has closed them. Returns false on timeout.
bool exchange(std::string_view input, int in, int out, int err, Output& output,
              Clock::time_point end) {
  std::array<pollfd, 3> ends = {pollfd{in, POLLOUT, 0}, {out, POLLIN, 0}, {err, POLLIN, 0}};
  while (ends[1].fd >= 0 || ends[2].fd >= 0) {
    if (input.empty() && ends[0].fd >= 0) {
      ::shutdown(in, SHUT_WR);
      ends[0].fd = -1;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return false;
    if (::poll(ends.data(), ends.size(), static_cast<int>(left.count())) < 0 && errno != EINTR) {
      return false;
    }
    if (ends[0].fd >= 0 && ends[0].revents != 0) {
      const auto sent = ::send(in, input.data(), input.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) input.remove_prefix(static_cast<std::size_t>(sent));
      if (sent < 0 && errno != EINTR && errno != EAGAIN) input = {};  // it does not read any more
    }
    if (ends[1].fd >= 0 && ends[1].revents != 0 && !read_some(out, output.out)) ends[1].fd = -1;
    if (ends[2].fd >= 0 && ends[2].revents != 0 && !read_some(err, output.err)) ends[2].fd = -1;
  }
  return true;
}

}  // namespace

Output filter(const std::vector<std::string>& words, const std::string& input, int timeout) {
  Ends in = make_ends(), out = make_ends(), err = make_ends();
  Output output;
  const pid_t child = spawn(words, in, out, err);
  if (child == 0) return output;
  output.started = true;
  for (Ends* ends : {&in, &out, &err}) ends->child.close();
  const auto end = Clock::now() + std::chrono::seconds(timeout);
  if (!exchange(input, in.here.get(), out.here.get(), err.here.get(), output, end)) {
    ::kill(child, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  constexpr int after_signal = 128;
  output.code = WIFEXITED(status) ? WEXITSTATUS(status) : after_signal + WTERMSIG(status);
  return output;
}

}  // namespace shardstream::report::page
