#include "process/filter.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "process/child.hpp"

namespace shardstream::process {
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

/// Reads the bytes that are available; false at the end of the stream.
bool read_some(int from, std::string& to) {
  std::array<char, 65536> buffer{};
  const auto count = ::read(from, buffer.data(), buffer.size());
  if (count > 0) to.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && (errno == EINTR || errno == EAGAIN));
}

/// Writes `input` and reads both outputs until the child has closed them. Returns false on timeout.
bool exchange(std::string_view input, int in, int out, int err, FilterOutput& output,
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

FilterOutput filter(const std::vector<std::string>& words, const std::string& input, int timeout,
                    const std::vector<std::string>& environment) {
  const auto program = find_program(words.front());
  if (!program) return {};
  FilterOutput output;
  output.started = true;
  Ends in = make_ends(), out = make_ends(), err = make_ends();
  const char* const path = ::getenv("PATH");
  Program filter_program{
      .path = *program,
      .words = words,
      .environment = {"LC_ALL=C", fmt::format("PATH={}", path == nullptr ? "" : path)}};
  filter_program.environment.insert(filter_program.environment.end(), environment.begin(),
                                    environment.end());
  Child child(filter_program, {in.child.get(), out.child.get(), err.child.get()});
  for (Ends* ends : {&in, &out, &err}) ends->child.close();
  const auto end = Clock::now() + std::chrono::seconds(timeout);
  if (!exchange(input, in.here.get(), out.here.get(), err.here.get(), output, end)) child.end();
  while (!child.is_over()) {
    pollfd news{child.descriptor(), POLLIN, 0};
    ::poll(&news, 1, -1);
    child.receive();
  }
  output.code = child.code().value_or(0);
  return output;
}

}  // namespace shardstream::process
