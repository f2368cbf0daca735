#include "core/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "core/units.hpp"

namespace shardstream {

using namespace std::chrono_literals;

namespace {

constexpr Progress::Clock::duration bar_delay = 2s, bar_interval = 200ms;
constexpr Progress::Clock::duration first_line = 5s, max_interval = 10min;

}  // namespace

Progress::Progress(std::string what, double total, bool enabled, std::FILE* out,
                   Clock::time_point start)
    : what_(std::move(what)),
      total_(total),
      enabled_(enabled),
      terminal_(isatty(fileno(out)) == 1),
      out_(out),
      start_(start),
      next_(start + (terminal_ ? bar_delay : first_line)),
      interval_(terminal_ ? bar_interval : 2 * first_line) {}

Progress::~Progress() {
  if (shown_ && terminal_) std::fputs("\r\033[K", out_);
}

void Progress::add(double part, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  done_ += part;
  if (!enabled_ || now < next_ || total_ <= 0) return;
  next_ = now + interval_;
  if (!terminal_) interval_ = std::min(2 * interval_, max_interval);
  shown_ = true;
  const double share = std::clamp(done_ / total_, 0.0, 1.0);
  const double spent = std::chrono::duration<double>(now - start_).count();
  const std::string left =
      share > 0 ? format_duration(spent / share - spent) + " left" : std::string("just started");
  std::string line =
      fmt::format("{}: {:.0f} % after {}, {}", what_, 100 * share, format_duration(spent), left);
  if (terminal_) {
    constexpr int width = 30;
    const int full = static_cast<int>(share * width);
    line = fmt::format("\r[{:#<{}}{:.<{}}] {}\033[K", "", full, "", width - full, line);
  } else {
    line += '\n';
  }
  std::fwrite(line.data(), 1, line.size(), out_);
  std::fflush(out_);
}

}  // namespace shardstream
