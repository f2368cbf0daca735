// What NCCL says in words, in its log and of its failures, and what follows for the user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardstream::comm {

/// What NCCL's log, of level INFO, names as the network between hosts: "IB", "Socket", or what a
/// plugin calls itself; empty if nothing.
std::string network_in(std::string_view log);

/// The words that tell most about a failure: the first warning in the log whose remedy is known, or
/// else `last`, NCCL's last error. That one alone may be what came of the first.
std::string telling_words(std::string_view log, std::string_view last);

/// What the user can do, ": do this". `room` is what /dev/shm has left, in bytes, if known.
std::string nccl_remedy(std::string_view words, std::optional<std::uint64_t> room);

/// Which of the ranks' failures the others come of, empty where a rank has none: one whose remedy
/// is known before one that only tells of another rank's. The number of ranks if none has failed.
std::size_t first_cause(std::span<const std::string> failures);

/// What to say of a network between hosts; empty if it is as it should be.
std::string network_warning(std::string_view network);

}  // namespace shardstream::comm
