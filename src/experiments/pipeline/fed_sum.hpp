// A sum of data that the buffer rings of a run feed to a kernel, the ceilings with which it is
// compared, and its check. Runs on every backend.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/shard.hpp"
#include "device/buffer.hpp"
#include "experiments/bench.hpp"
#include "io/source/source.hpp"
#include "measure/track.hpp"
#include "pipeline/feed.hpp"

namespace shardstream::experiments::feeds {

/// Batches, and the shards of ranks, are multiples of this number of elements, as in `reduce`.
inline constexpr std::uint64_t feed_unit = std::uint64_t{1} << 16;

/// Whether a share is larger than the noise of two measurements explains, and the remark if it is.
constexpr bool is_above_ceiling(double share) {
  return share > 1.1;
}
inline constexpr auto above_ceiling = "above its ceiling, which was measured too low";

/// The sizes that a run would choose for a shard of the source with pipeline.mode `mode`. Throws
/// UsageError if there is not enough memory.
shardstream::pipeline::Sizes sizes_for(const Bench& bench, const std::string& mode,
                                       const io::Source& source, Range shard);

/// Feeds elements to a kernel that adds their bytes as 64-bit words.
class FedSum {
 public:
  /// The source must outlive this object.
  FedSum(Bench& bench, const io::Source& source, Range shard,
         const shardstream::pipeline::Sizes& sizes);

  /// One pass, from the place of the data to the sum. Returns when the sum is known.
  void run();
  /// Discards the spans of the last pass. Call it between two passes.
  void settle() { recorder_.settle(); }

  /// The sum of the last pass, modulo 2^64.
  std::uint64_t sum() const { return last_; }

 private:
  measure::Recorder recorder_;
  const std::uint64_t element_bytes_;
  device::Buffer<std::uint64_t> sum_, all_passes_;  // of all passes, on the device and the host
  std::uint64_t last_ = 0;
  shardstream::pipeline::Feed feed_;  // last: its streams end before the buffers go
};

/// The same sum without rings and devices: `threads` threads read pieces of the source.
std::uint64_t reference_sum(const io::Source& source, Range shard, unsigned threads);

/// Times `pass` by the host's clock. `settle` is called after each pass and not timed.
Timing time_passes(Bench& bench, const std::function<void()>& pass,
                   const std::function<void()>& settle);

/// Times copies of `bytes` bytes from pinned memory to the device, 64 MiB each, one after the
/// other. The last copy is verified.
Timing plain_copies(Bench& bench, std::uint64_t bytes);

/// Times a plain kernel that reads `bytes` bytes of device memory, a multiple of 16. It has no
/// result that could be checked.
Timing plain_reads(Bench& bench, std::uint64_t bytes);

}  // namespace shardstream::experiments::feeds
