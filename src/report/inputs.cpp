#include "report/inputs.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <tuple>

namespace shardstream::report {
namespace {

auto identity_of(const io::InputFile& file) {
  return std::tuple(file.path, file.dataset, file.size, file.modified);
}

std::string name_of(const io::InputFile& file) {
  return fmt::format("'{}{}{}'", file.path.string(), file.dataset.empty() ? "" : ":", file.dataset);
}

/// "2026-11-25 15:04:05.123456789 UTC", which `touch -d` accepts.
std::string moment_of(std::int64_t ns_since_1970) {
  constexpr std::int64_t second = 1'000'000'000;
  const std::int64_t ns = ((ns_since_1970 % second) + second) % second;
  const auto seconds = static_cast<std::time_t>((ns_since_1970 - ns) / second);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:09} UTC", fmt::gmtime(seconds), ns);
}

/// "1024 bytes, modified at 2026-11-25 15:04:05.123456789 UTC"
std::string state_of(const io::InputFile& file) {
  return fmt::format("{} bytes, modified at {}", file.size, moment_of(file.modified));
}

}  // namespace

std::string difference_of(std::span<const io::InputFile> before,
                          std::span<const io::InputFile> after, std::string_view in_before,
                          std::string_view in_after) {
  for (std::size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
    if (i >= before.size()) {
      return fmt::format("{} is an input only {}", name_of(after[i]), in_after);
    }
    if (i >= after.size()) {
      return fmt::format("{} is an input only {}", name_of(before[i]), in_before);
    }
    const io::InputFile &old = before[i], &current = after[i];
    if (identity_of(old) == identity_of(current)) continue;
    if (old.path == current.path && old.dataset == current.dataset) {
      return fmt::format("{} has {}, {}, but {}, {}", name_of(old), state_of(old), in_before,
                         state_of(current), in_after);
    }
    return fmt::format("the input is {} ({}) {}, but {} ({}) {}", name_of(old), state_of(old),
                       in_before, name_of(current), state_of(current), in_after);
  }
  return {};
}

}  // namespace shardstream::report
