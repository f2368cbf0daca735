#include "io/hdf5/crash.hpp"

#include <fmt/format.h>
#include <hdf5.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string_view>

#include "core/text.hpp"

namespace shardstream::io::hdf5 {
namespace {

struct Crash {
  int number;
  std::string_view name;
};
constexpr std::array crashes = {Crash{SIGSEGV, "SIGSEGV"}, Crash{SIGBUS, "SIGBUS"},
                                Crash{SIGFPE, "SIGFPE"}, Crash{SIGILL, "SIGILL"},
                                Crash{SIGABRT, "SIGABRT"}};

// A signal handler can only use static memory. None of these objects has a constructor.
constinit thread_local int depth = 0;  // of locks that this thread holds
constinit thread_local const AtWork* innermost = nullptr;
std::array<struct sigaction, crashes.size()> earlier{};
std::atomic<bool> installed = false;
std::array<char, 32> version{}, prefix{};
std::atomic<int> wait_ms = 0;
std::atomic<void (*)()> announce = nullptr;
std::atomic<void (*)(ExitCode)> end_process = nullptr;

/// The stack of the signal handlers: a crash may be an overflow of the ordinary stack.
class HandlerStack {
 public:
  HandlerStack() {
    stack_t there{};
    sigaltstack(nullptr, &there);
    if ((there.ss_flags & SS_DISABLE) == 0) return;  // a sanitizer's or an MPI library's serves too
    const auto size = static_cast<std::size_t>(std::max(sysconf(_SC_SIGSTKSZ), 65'536L));
    bytes_ = std::make_unique<std::byte[]>(size);
    const stack_t own{.ss_sp = bytes_.get(), .ss_flags = 0, .ss_size = size};
    sigaltstack(&own, nullptr);
  }
  ~HandlerStack() {
    stack_t there{};
    sigaltstack(nullptr, &there);
    if (bytes_ == nullptr || there.ss_sp != bytes_.get()) return;
    const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    sigaltstack(&none, nullptr);
  }
  HandlerStack(const HandlerStack&) = delete;
  HandlerStack& operator=(const HandlerStack&) = delete;

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

/// A line that is assembled without allocation. Text that does not fit is cut off.
class Line {
 public:
  void add(std::string_view text) {
    const std::size_t length = std::min(text.size(), text_.size() - 1 - length_);
    std::memcpy(text_.data() + length_, text.data(), length);
    length_ += length;
  }
  void write_out() {
    text_[length_++] = '\n';
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text_.data(), length_);
  }

 private:
  std::array<char, 6000> text_;
  std::size_t length_ = 0;
};

[[noreturn]] void end_with_sentence(const AtWork& at_work, std::string_view signal) {
  if (const auto call = announce.load()) call();
  if (wait_ms > 0) poll(nullptr, 0, wait_ms);  // the sleep that a signal handler may call
  const bool is_opening = at_work.stage() == Stage::opening;
  Line line;
  line.add(prefix.data());
  line.add("error: '");
  line.add(at_work.file());
  line.add(is_opening ? "' cannot be opened: HDF5 " : "' cannot be read: HDF5 ");
  line.add(version.data());
  line.add(" crashed on it (");
  line.add(signal);
  line.add("), so its metadata is probably damaged: copy or write it again");
  line.write_out();
  const ExitCode code = is_opening ? ExitCode::usage : ExitCode::failed;
  if (const auto end = end_process.load()) end(code);
  _exit(static_cast<int>(code));
}

/// Passes a crash outside HDF5 to the earlier action, as if this handler did not exist. The next
/// lock installs it again.
void pass_on(std::size_t which, const siginfo_t& info) {
  sigaction(crashes[which].number, &earlier[which], nullptr);
  installed = false;
  // A fault comes again when the instruction is repeated; a signal that was sent must be sent
  // again.
  if (info.si_code <= 0) raise(crashes[which].number);
}

void on_crash(int number, siginfo_t* info, void*) {
  const auto found = std::ranges::find(crashes, number, &Crash::number);
  const bool from_elsewhere = info->si_code == SI_USER;
  if (depth > 0 && innermost != nullptr && !from_elsewhere) {
    end_with_sentence(*innermost, found->name);
  }
  pass_on(static_cast<std::size_t>(found - crashes.begin()), *info);
}

/// Needs the lock.
void install() {
  unsigned major = 0, minor = 0, release = 0;
  if (H5get_libversion(&major, &minor, &release) >= 0) {
    fmt::format_to_n(version.data(), version.size() - 1, "{}.{}.{}", major, minor, release);
  }
  struct sigaction action {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (const Crash& crash : crashes) sigaddset(&action.sa_mask, crash.number);
  for (std::size_t i = 0; i < crashes.size(); ++i) {
    struct sigaction there {};
    sigaction(crashes[i].number, nullptr, &there);
    if ((there.sa_flags & SA_SIGINFO) != 0 && there.sa_sigaction == on_crash) continue;
    earlier[i] = there;
    sigaction(crashes[i].number, &action, nullptr);
  }
  installed = true;
}

}  // namespace

AtWork::AtWork(const std::string& file, Stage stage)
    : file_(printable(file)), stage_(stage), outer_(innermost) {
  innermost = this;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

AtWork::~AtWork() {
  innermost = outer_;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

void set_crash_end(const CrashEnd& how) {
  const std::size_t length = std::min(how.prefix.size(), prefix.size() - 1);
  std::memcpy(prefix.data(), how.prefix.data(), length);
  prefix[length] = '\0';
  wait_ms = static_cast<int>(how.wait.count());
  announce = how.announce;
  end_process = how.end;
}

Inside::Inside() {
  thread_local const HandlerStack stack;
  if (!installed) install();
  ++depth;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

Inside::~Inside() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  --depth;
}

}  // namespace shardstream::io::hdf5
