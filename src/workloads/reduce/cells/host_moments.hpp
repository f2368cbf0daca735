// The moments of all passes on the host: those of a rank's outputs, and of its sampled boxes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/buffer.hpp"
#include "device/device.hpp"
#include "kernels/cells/cells.hpp"

namespace shardstream::workloads {

class HostMoments {
 public:
  /// `device` and `stream` must outlive it.
  HostMoments(device::Device& device, device::Stream& stream, std::uint64_t passes)
      : device_(&device), stream_(&stream), passes_(passes) {}

  /// Copies the first `count` roots of a pass, which have `words` words each, from device memory.
  /// The only pass of a host leaves its roots where they are.
  void set_roots(std::uint64_t pass, const cells::States& roots, std::uint64_t count,
                 unsigned words) {
    Pass& own = passes_[pass];
    if (passes_.size() == 1 && device_->info().backend == "host") {
      own.roots = roots;
      return;
    }
    own.copied_roots = copied(roots, count, words);
    own.roots = {own.copied_roots.data(), count};
  }
  /// Copies the samples of a pass.
  void set_samples(std::uint64_t pass, const cells::States& samples, unsigned words) {
    passes_[pass].samples = copied(samples, samples.values, words);
  }

  const cells::States& roots(std::uint64_t pass) const { return passes_[pass].roots; }
  std::vector<std::uint64_t>& samples(std::uint64_t pass) { return passes_[pass].samples; }

 private:
  struct Pass {
    cells::States roots{};
    std::vector<std::uint64_t> copied_roots, samples;
  };

  /// The first `count` values, word by word.
  std::vector<std::uint64_t> copied(const cells::States& from, std::uint64_t count,
                                    unsigned words) const {
    std::vector<std::uint64_t> to(words * count);
    constexpr std::uint64_t max_piece = std::uint64_t{1} << 21;
    const std::uint64_t piece = std::clamp<std::uint64_t>(count, 1, max_piece);
    const device::Buffer<std::uint64_t> staged(*device_, device::Memory::pinned, piece);
    for (unsigned w = 0; w < words; ++w) {
      for (std::uint64_t first = 0; first < count; first += piece) {
        const std::uint64_t part = std::min(piece, count - first);
        stream_->download(staged.data(), from.words + w * from.values + first,
                          part * sizeof(std::uint64_t));
        stream_->synchronize();
        std::copy_n(staged.data(), part,
                    to.begin() + static_cast<std::ptrdiff_t>(w * count + first));
      }
    }
    return to;
  }

  device::Device* device_;
  device::Stream* stream_;
  std::vector<Pass> passes_;
};

}  // namespace shardstream::workloads
