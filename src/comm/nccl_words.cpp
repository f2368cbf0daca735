#include "comm/nccl_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text.hpp"
#include "core/units.hpp"

namespace shardstream::comm {
namespace {

template <std::size_t Count>
bool has_any(std::string_view words, const std::array<std::string_view, Count>& parts) {
  return std::ranges::any_of(parts, [&](auto part) { return words.find(part) != words.npos; });
}

/// Of files that NCCL makes there; that it attaches to another rank's in vain is a consequence.
bool is_about_shared_memory(std::string_view words) {
  constexpr std::array<std::string_view, 3> parts = {"/dev/shm/nccl-", "shared memory segment",
                                                     "posix_fallocate"};
  return has_any(words, parts) && words.find("attaching to") == words.npos;
}

bool is_about_shared_gpu(std::string_view words) {
  return words.find("Duplicate GPU") != words.npos;
}

bool is_known(std::string_view words) {
  return is_about_shared_memory(words) || is_about_shared_gpu(words);
}

/// NCCL's words on a rank whose peer has gone.
bool is_about_another_rank(std::string_view words) {
  constexpr std::array<std::string_view, 4> parts = {"remote process exited", "remote peer",
                                                     "Socket recv failed", "attaching to"};
  return has_any(words, parts);
}

/// What follows `mark` in each line that has it.
std::vector<std::string_view> lines_behind(std::string_view mark, std::string_view log) {
  std::vector<std::string_view> found;
  for (const std::string_view line : split(log, '\n')) {
    const auto at = line.find(mark);
    if (at != line.npos) found.push_back(trim(line.substr(at + mark.size())));
  }
  return found;
}

}  // namespace

std::string network_in(std::string_view log) {
  const auto names = lines_behind("NCCL INFO Using network ", log);
  return names.empty() ? "" : std::string(names.back());
}

std::string telling_words(std::string_view log, std::string_view last) {
  const auto warnings = lines_behind("NCCL WARN ", log);
  const auto known = std::ranges::find_if(warnings, is_known);
  return std::string(known != warnings.end() ? *known : last);
}

std::string nccl_remedy(std::string_view words, std::optional<std::uint64_t> room) {
  if (is_about_shared_memory(words)) {
    return fmt::format(
        ": NCCL needs room in /dev/shm{}: make it larger (docker run --shm-size=1g, or remount "
        "it), or pass --comm.transport mpi",
        room ? fmt::format(", which has {} left", format_size(*room)) : "");
  }
  if (is_about_shared_gpu(words)) {
    return ": two ranks use one GPU, which NCCL refuses: start one rank a GPU, or pass "
           "--comm.transport mpi";
  }
  return ": NCCL_DEBUG=WARN tells more; --comm.transport mpi goes without NCCL";
}

std::size_t first_cause(std::span<const std::string> failures) {
  const auto first = [&](auto fits) {
    return static_cast<std::size_t>(std::ranges::find_if(failures, fits) - failures.begin());
  };
  const auto known = first([](const std::string& words) { return is_known(words); });
  if (known < failures.size()) return known;
  const auto own = first(
      [](const std::string& words) { return !words.empty() && !is_about_another_rank(words); });
  if (own < failures.size()) return own;
  return first([](const std::string& words) { return !words.empty(); });
}

std::string network_warning(std::string_view network) {
  if (network.find("Socket") == network.npos) return "";
  return "NCCL combines between the hosts over TCP (Socket), which is slow: where they have "
         "InfiniBand, RoCE or another fabric, see NCCL_NET, NCCL_IB_DISABLE and NCCL_IB_HCA, and "
         "whether its plugin for NCCL is on LD_LIBRARY_PATH; NCCL_DEBUG=INFO tells what NCCL found";
}

}  // namespace shardstream::comm
