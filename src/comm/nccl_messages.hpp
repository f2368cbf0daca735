// Interprets NCCL's log and error messages, and states the remedy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardstream::comm {

/// The network between hosts that NCCL's log (level INFO) names: "IB", "Socket", or the name of a
/// plugin; empty if it names none.
std::string network_in(std::string_view log);

/// The message that explains a failure best: the first warning in the log with a known remedy, else
/// `last`, NCCL's last error. The last error may only be a consequence of an earlier warning.
std::string main_message(std::string_view log, std::string_view last);

/// The remedy for an error message, in the form ": do this". `free_bytes` is the free space of
/// /dev/shm, if known.
std::string nccl_remedy(std::string_view message, std::optional<std::uint64_t> free_bytes);

/// The index of the failure that caused the others. `failures` has one text per rank, empty if the
/// rank has not failed. A failure with a known remedy comes first, one that only reports another
/// rank's failure last. Returns the number of ranks if none has failed.
std::size_t first_cause(std::span<const std::string> failures);

/// A warning about the network between hosts; empty if the network is fast.
std::string network_warning(std::string_view network);

}  // namespace shardstream::comm
