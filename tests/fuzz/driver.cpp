#include "fuzz/driver.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::fuzz {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Exit codes of children, in addition to the program's own.
constexpr int time_is_over = 97, found_something = 98, sanitizer_report = 99;

/// The number of cases of one child, since damaged files leave state in HDF5 that must not
/// accumulate.
constexpr std::uint64_t max_cases = 500;
constexpr unsigned max_seconds = 10;   // of a case
constexpr std::uint64_t max_kept = 3;  // inputs of one kind of finding

/// Memory shared by parent and child. Only one of them writes at a time.
struct Shared {
  std::uint64_t number;  ///< of the current case
  std::uint64_t done, refused, failed;
  bool hangs;
  char message[4096];
};

Shared& share() {
  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no shared memory");
  return *new (memory) Shared{};
}

Shared* shared_with_parent = nullptr;  // for the signal handler

/// Makes a hanging case crash, so that the program's own handler tells whether HDF5 hangs.
void end_hanging_case(int) {
  shared_with_parent->hangs = true;
  ::raise(SIGABRT);
}

/// A description of a wrong end of a case; empty if the end is allowed.
std::string judge(const Target& target, Shared& shared) {
  try {
    target.run();
    ++shared.done;
    return {};
  } catch (const ContractError& error) {
    return fmt::format("ContractError: {}", error.what());
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (message.empty()) return "an error without a message";
    const bool failed = error.code() == ExitCode::failed;
    if (failed && target.ends() == Ends::usage) return fmt::format("exit code 1: {}", message);
    ++(failed ? shared.failed : shared.refused);
    return {};
  } catch (const std::exception& error) {
    return fmt::format("an exception that is no Error: {}", error.what());
  }
}

std::uint64_t seed_of(std::string_view target, std::uint64_t seed, std::uint64_t number) {
  std::uint64_t mixed = seed * 0x9e3779b97f4a7c15 + number;
  for (const char c : target) mixed = (mixed ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return mixed;
}

class Runner {
 public:
  Runner(const Target& target, const Plan& plan)
      : target_(target), plan_(plan), end_(Clock::now() + plan.time), shared_(share()) {
    fs::create_directories(cases_);
  }
  ~Runner() { ::munmap(&shared_, sizeof shared_); }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  Report run() {
    const auto begun = Clock::now();
    shared_.number = plan_.first;
    while (goes_on()) {
      const pid_t child = ::fork();
      if (child < 0) throw std::runtime_error("cannot fork");
      if (child == 0) work();
      int status = 0;
      if (::waitpid(child, &status, 0) != child) throw std::runtime_error("cannot wait");
      note_end(status);
    }
    report_.cases = shared_.number - plan_.first;
    report_.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    report_.outcomes["succeeded"] = shared_.done;
    report_.outcomes["exit code 2"] += shared_.refused;
    report_.outcomes["exit code 1"] += shared_.failed;
    return std::move(report_);
  }

 private:
  bool goes_on() const {
    return Clock::now() < end_ && shared_.number <= plan_.last.value_or(UINT64_MAX);
  }

  /// The child process. It increments `number` only after a case has ended.
  [[noreturn]] void work() {
    ::dup2(::open(stderr_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    shared_with_parent = &shared_;
    ::signal(SIGALRM, end_hanging_case);
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
#ifndef __SANITIZE_ADDRESS__  // which limits memory by itself
    const rlimit memory{std::uint64_t{4} << 30, std::uint64_t{4} << 30};
    ::setrlimit(RLIMIT_AS, &memory);
#endif
    for (std::uint64_t done = 0; done < max_cases && goes_on(); ++done) {
      std::string complaint =
          ::ftruncate(STDERR_FILENO, 0) == 0 ? run_case() : "the fuzzer cannot empty its file";
      if (!complaint.empty()) {
        complaint.resize(std::min(complaint.size(), sizeof shared_.message - 1));
        std::strcpy(shared_.message, complaint.c_str());
        ::_exit(found_something);
      }
      ++shared_.number;
    }
    ::_exit(time_is_over);
  }

  std::string run_case() {
    try {
      Random random(seed_of(target_.name(), plan_.seed, shared_.number));
      const Files files = target_.make(random);
      // Every case gets new files, since HDF5 would recognise old ones that a case has left open.
      fs::remove_all(cases_);
      fs::create_directory(cases_);
      fs::current_path(cases_);
      for (const auto& [name, bytes] : files) write_file(name, bytes);
    } catch (const std::exception& error) {
      return fmt::format("the fuzzer cannot make the case: {}", error.what());
    }
    ::alarm(max_seconds);
    std::string complaint = judge(target_, shared_);
    ::alarm(0);
    return complaint;
  }

  void note_end(int status) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == time_is_over) return;
    const std::string said = read_file(stderr_);
    std::string finding;
    if (shared_.hangs) {
      shared_.hangs = false;
      if (is_one_sentence(said)) {
        ++report_.outcomes["hang inside libhdf5"];
      } else {
        finding = fmt::format("hangs for {} s", max_seconds);
      }
    } else if (WIFSIGNALED(status)) {
      finding = fmt::format("ended by {}", ::strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) == found_something) {
      finding = shared_.message;
    } else if (WEXITSTATUS(status) == sanitizer_report) {
      finding = is_of_hdf5(said) ? std::string() : summary_of(said);
      if (finding.empty()) ++report_.outcomes["memory error inside libhdf5"];
    } else if (is_one_sentence(said)) {
      ++report_.outcomes[fmt::format("crash inside libhdf5, exit code {}", WEXITSTATUS(status))];
    } else {
      finding = fmt::format("exit code {}", WEXITSTATUS(status));
    }
    if (!finding.empty()) keep(finding, said);
    ++shared_.number;
  }

  /// The output of the handler of crashes inside HDF5. Before it, the C library may print a line,
  /// such as "free(): invalid pointer", and AddressSanitizer a line for each rejected allocation.
  static bool is_one_sentence(std::string_view said) {
    for (auto end = said.find('\n'); end != said.npos; end = said.find('\n')) {
      if (said.substr(0, end).find("failed to allocate") == said.npos) break;
      said.remove_prefix(end + 1);
    }
    if (const auto end = said.find('\n'); said.find("(SIGABRT)", end) != said.npos) {
      said.remove_prefix(end + 1);
    }
    return said.starts_with("error: ") && said.find("HDF5") != said.npos &&
           said.find('\n') == said.size() - 1;
  }

  static std::string summary_of(const std::string& said) {
    for (const char* words : {"SUMMARY: ", "ERROR: ", "runtime error: "}) {
      const auto begin = said.find(words);
      if (begin != said.npos) return said.substr(begin, said.find('\n', begin) - begin);
    }
    return "a sanitizer's report";
  }

  /// Whether the innermost function of a report, besides the sanitizer's own, belongs to libhdf5.
  static bool is_of_hdf5(const std::string& said) {
    auto at = said.find("\n    #0 ");
    while (at != said.npos && said.compare(at, 6, "\n    #") == 0) {
      const auto end = said.find('\n', at + 1);
      const std::string frame = said.substr(at, end - at);
      if (frame.find("libhdf5") != frame.npos) return true;
      if (frame.find("interceptor") == frame.npos && frame.find("libasan") == frame.npos &&
          frame.find("sanitizer_common") == frame.npos && frame.find("/libc.so") == frame.npos) {
        return false;
      }
      at = end;
    }
    return false;
  }

  /// The kind of a finding: findings that differ only in numbers and names are of one kind.
  static std::string kind_of(const std::string& finding) {
    std::string kind;
    for (const char c : finding) {
      if (c == '\n') break;
      if (c >= '0' && c <= '9') {
        if (!kind.ends_with('#')) kind += '#';
      } else {
        kind += c;
      }
    }
    return kind.substr(0, 150);
  }

  void keep(const std::string& finding, const std::string& said) {
    const std::string kind = kind_of(finding);
    if (++report_.findings[kind] > max_kept) return;
    const fs::path to =
        plan_.findings / fmt::format("{}-{}-{}", target_.name(), plan_.seed, shared_.number);
    fs::create_directories(to.parent_path());
    fs::remove_all(to);
    fs::copy(cases_, to);
    write_file(to / "stderr.txt", said);
    fmt::print("FINDING: {}, seed {}, case {}: {}\n  kept in {}\n", target_.name(), plan_.seed,
               shared_.number, finding, to.string());
    std::fflush(stdout);
  }

  const Target& target_;
  const Plan& plan_;
  const Clock::time_point end_;
  const fs::path cases_ = plan_.work / "case", stderr_ = plan_.work / "stderr.txt";
  Shared& shared_;
  Report report_;
};

}  // namespace

Report run_cases(const Target& target, const Plan& plan) {
  return Runner(target, plan).run();
}

}  // namespace shardstream::fuzz
