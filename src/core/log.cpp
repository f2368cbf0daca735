#include "core/log.hpp"

#include <fmt/format.h>

#include "core/text.hpp"

namespace shardstream {

void Log::warn(std::string_view line) {
  write("warning: ", line);
  const std::lock_guard lock(mutex_);
  warnings_.emplace_back(line);
}

std::vector<std::string> Log::warnings() const {
  const std::lock_guard lock(mutex_);
  return warnings_;
}

void Log::write(std::string_view kind, std::string_view line) {
  // One fwrite a line: launchers that merge the ranks' output then keep lines whole.
  const std::string whole =
      fmt::format("{}{}{}{}\n", prefix_, prefix_.empty() ? "" : ": ", kind, printable(line));
  const std::lock_guard lock(mutex_);
  std::fwrite(whole.data(), 1, whole.size(), out_);
  std::fflush(out_);
}

}  // namespace shardstream
