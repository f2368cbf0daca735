#include "process/descendants.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>

namespace shardstream::process {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto poll_interval = std::chrono::milliseconds(20);

/// The parent of a process; 0 if the process does not exist any more.
pid_t parent_of(const fs::path& entry) {
  std::ifstream file(entry / "stat");
  std::string text;
  std::getline(file, text, '\0');
  // "PID (NAME) STATE PARENT ..."; the name may contain blanks and parentheses.
  const auto end_of_name = text.rfind(") ");
  constexpr std::size_t to_parent = 4;
  pid_t parent = 0;
  if (end_of_name == text.npos || end_of_name + to_parent > text.size()) return 0;
  std::from_chars(text.data() + end_of_name + to_parent, text.data() + text.size(), parent);
  return parent;
}

std::multimap<pid_t, pid_t> children_of_parents() {
  std::multimap<pid_t, pid_t> children;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    pid_t pid = 0;
    const char* const name_end = name.data() + name.size();
    if (std::from_chars(name.data(), name_end, pid).ptr == name_end) {
      children.emplace(parent_of(entry->path()), pid);
    }
  }
  return children;
}

}  // namespace

void adopt_orphans() {
  std::signal(SIGCHLD, SIG_DFL);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

std::vector<pid_t> descendants() {
  const auto children = children_of_parents();
  std::vector<pid_t> found = {getpid()};
  for (std::size_t next = 0; next < found.size(); ++next) {
    const auto [begin, end] = children.equal_range(found[next]);
    for (auto child = begin; child != end; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

bool reap(const OnReaped& on_reaped) {
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended > 0) {
      on_reaped(ended, status);
    } else if (ended == 0) {
      return true;
    } else if (errno != EINTR) {
      return false;
    }
  }
}

bool end_descendants(const OnReaped& on_reaped) {
  const auto until = Clock::now() + grace;
  std::set<pid_t> notified;
  bool kills = false;
  while (reap(on_reaped)) {
    kills = Clock::now() > until;
    for (const pid_t pid : descendants()) {
      if (kills) {
        kill(pid, SIGKILL);
      } else if (notified.insert(pid).second) {
        kill(pid, SIGTERM);
        kill(pid, SIGCONT);  // a stopped process receives SIGTERM only then
      }
    }
    std::this_thread::sleep_for(poll_interval);
  }
  return kills;
}

}  // namespace shardstream::process
