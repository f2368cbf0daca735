#include "comm/nccl_messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text.hpp"
#include "core/units.hpp"

namespace shardstream::comm {
namespace {

template <std::size_t Count>
bool has_any(std::string_view message, const std::array<std::string_view, Count>& parts) {
  return std::ranges::any_of(parts, [&](auto part) { return message.find(part) != message.npos; });
}

/// Whether NCCL could not create a file in /dev/shm. That it cannot attach to the file of another
/// rank is only a consequence.
bool is_about_shared_memory(std::string_view message) {
  constexpr std::array<std::string_view, 3> parts = {"/dev/shm/nccl-", "shared memory segment",
                                                     "posix_fallocate"};
  return has_any(message, parts) && message.find("attaching to") == message.npos;
}

bool is_about_shared_gpu(std::string_view message) {
  return message.find("Duplicate GPU") != message.npos;
}

bool is_known(std::string_view message) {
  return is_about_shared_memory(message) || is_about_shared_gpu(message);
}

/// Whether this is what NCCL reports on a rank whose peer has failed.
bool is_about_another_rank(std::string_view message) {
  constexpr std::array<std::string_view, 4> parts = {"remote process exited", "remote peer",
                                                     "Socket recv failed", "attaching to"};
  return has_any(message, parts);
}

/// The rest of each line after `mark`, for the lines that have it.
std::vector<std::string_view> rests_after(std::string_view mark, std::string_view log) {
  std::vector<std::string_view> found;
  for (const std::string_view line : split(log, '\n')) {
    const auto at = line.find(mark);
    if (at != line.npos) found.push_back(trim(line.substr(at + mark.size())));
  }
  return found;
}

}  // namespace

std::string network_in(std::string_view log) {
  const auto names = rests_after("NCCL INFO Using network ", log);
  return names.empty() ? "" : std::string(names.back());
}

std::string main_message(std::string_view log, std::string_view last) {
  const auto warnings = rests_after("NCCL WARN ", log);
  const auto known = std::ranges::find_if(warnings, is_known);
  return std::string(known != warnings.end() ? *known : last);
}

std::string nccl_remedy(std::string_view message, std::optional<std::uint64_t> free_bytes) {
  if (is_about_shared_memory(message)) {
    return fmt::format(
        ": NCCL needs more space in /dev/shm{}: enlarge it (docker run --shm-size=1g, or remount "
        "it), or pass --comm.transport mpi",
        free_bytes ? fmt::format(", which has {} left", format_size(*free_bytes)) : "");
  }
  if (is_about_shared_gpu(message)) {
    return ": two ranks use one GPU, which NCCL rejects: start one rank per GPU, or pass "
           "--comm.transport mpi";
  }
  return ": set NCCL_DEBUG=WARN to see more, or pass --comm.transport mpi to run without NCCL";
}

std::size_t first_cause(std::span<const std::string> failures) {
  const auto first = [&](auto fits) {
    return static_cast<std::size_t>(std::ranges::find_if(failures, fits) - failures.begin());
  };
  const auto known = first([](const std::string& message) { return is_known(message); });
  if (known < failures.size()) return known;
  const auto own = first([](const std::string& message) {
    return !message.empty() && !is_about_another_rank(message);
  });
  if (own < failures.size()) return own;
  return first([](const std::string& message) { return !message.empty(); });
}

std::string network_warning(std::string_view network) {
  if (network.find("Socket") == network.npos) return "";
  return "NCCL connects the hosts over TCP (Socket), which is slow: if they have InfiniBand, RoCE "
         "or another fabric, check NCCL_NET, NCCL_IB_DISABLE and NCCL_IB_HCA, and that the "
         "fabric's "
         "plugin for NCCL is on LD_LIBRARY_PATH; NCCL_DEBUG=INFO shows what NCCL found";
}

}  // namespace shardstream::comm
