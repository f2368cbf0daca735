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

Progress::Progress(std::string what, bool enabled, std::FILE* out, Clock::time_point start)
    : what_(std::move(what)),
      enabled_(enabled),
      terminal_(isatty(fileno(out)) == 1),
      out_(out),
      start_(start),
      next_(start + (terminal_ ? bar_delay : first_line)),
      interval_(terminal_ ? bar_interval : 2 * first_line) {}

Progress::~Progress() {
  if (shown_ && terminal_) std::fputs("\r\033[K", out_);
}

void Progress::update(double done, double total, Clock::time_point now) {
  if (!enabled_ || now < next_ || total <= 0) return;
  next_ = now + interval_;
  if (!terminal_) interval_ = std::min(2 * interval_, max_interval);
  shown_ = true;
  const double part = std::clamp(done / total, 0.0, 1.0);
  const double spent = std::chrono::duration<double>(now - start_).count();
  const std::string left =
      part > 0 ? format_duration(spent / part - spent) + " left" : std::string("just started");
  std::string line =
      fmt::format("{}: {:.0f} % after {}, {}", what_, 100 * part, format_duration(spent), left);
  if (terminal_) {
    constexpr int width = 30;
    const int full = static_cast<int>(part * width);
    line = fmt::format("\r[{:#<{}}{:.<{}}] {}\033[K", "", full, "", width - full, line);
  } else {
    line += '\n';
  }
  std::fwrite(line.data(), 1, line.size(), out_);
  std::fflush(out_);
}

}  // namespace shardstream
