#include "core/standard_output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "core/descriptor.hpp"
#include "core/error.hpp"

namespace shardstream {

void print_output(std::string_view text, std::string_view consolation) {
  const bool taken = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (taken && std::fflush(stdout) == 0) return;
  throw Error(
      fmt::format("standard output cannot be written ({}){}", errno_text(errno), consolation));
}

void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest number that is free is this one's. Reading of what is for writing fails, and the
    // other way round.
    const int opened = ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened != stream) throw Error("cannot open /dev/null in place of a closed stream");
  }
}

}  // namespace shardstream
