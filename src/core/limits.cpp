#include "core/limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <limits>
#include <optional>

namespace shardstream {
namespace {

std::optional<rlim_t> limit_of(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

std::string in_kibibytes(char option, std::optional<rlim_t> bytes) {
  return bytes ? fmt::format("ulimit -{} is {} KiB", option, *bytes / 1024) : "";
}

}  // namespace

std::string file_size_limit() {
  return in_kibibytes('f', limit_of(RLIMIT_FSIZE));
}

std::string address_space_limit() {
  return in_kibibytes('v', limit_of(RLIMIT_AS));
}

std::string open_files_limit() {
  const auto files = limit_of(RLIMIT_NOFILE);
  return files ? fmt::format("ulimit -n is {}", *files) : "";
}

std::string thread_limits() {
  const std::string space = address_space_limit();
  const auto threads = limit_of(RLIMIT_NPROC);
  if (!threads) return space;
  return fmt::format("{}{}ulimit -u is {}", space, space.empty() ? "" : ", ", *threads);
}

std::string with_limit(const std::string& reason, const std::string& limit) {
  return limit.empty() ? reason : fmt::format("{}; {}", reason, limit);
}

std::uint64_t max_file_size() {
  return limit_of(RLIMIT_FSIZE).value_or(std::numeric_limits<std::uint64_t>::max());
}

void raise_open_files_limit() {
  constexpr rlim_t enough = 65'536;  // some programs close all descriptors below the limit
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= enough) return;
  limit.rlim_cur = std::min(limit.rlim_max, enough);
  ::setrlimit(RLIMIT_NOFILE, &limit);  // if it fails, openable_files() is lower
}

std::uint64_t openable_files() {
  const auto limit = limit_of(RLIMIT_NOFILE);
  if (!limit) return std::numeric_limits<std::uint64_t>::max();
  std::error_code unknown;
  const std::filesystem::directory_iterator open("/proc/self/fd", unknown);
  const auto count = static_cast<std::uint64_t>(std::distance(begin(open), end(open)));
  return *limit - std::min<std::uint64_t>(count, *limit);
}

void ignore_file_size_signal() {
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace shardstream
