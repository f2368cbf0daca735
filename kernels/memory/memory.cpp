#include "kernels/memory/memory.hpp"

#include <atomic>
#include <cstring>

namespace shardstream::memory {
namespace {

struct ByteRange {
  std::uint64_t begin, end;  // multiples of 16
};
ByteRange share_of(std::uint64_t bytes, unsigned part, unsigned parts) {
  const std::uint64_t words = bytes / 16;
  return {words * part / parts * 16, words * (part + 1) / parts * 16};
}

void read(const ReadArgs& args, unsigned part, unsigned parts) {
  const auto [begin, end] = share_of(args.bytes, part, parts);
  const auto* words = reinterpret_cast<const std::uint64_t*>(args.data);
  std::uint64_t sums[8] = {};  // several, which the compiler keeps in vector registers
  std::uint64_t i = begin / 8;
  for (; i + 8 <= end / 8; i += 8) {
    for (unsigned k = 0; k < 8; ++k) sums[k] += words[i + k];
  }
  std::uint64_t sum = 0;
  for (; i < end / 8; ++i) sum += words[i];
  for (const std::uint64_t s : sums) sum += s;
  if (sum == 0x5eed5eedU) std::atomic_ref(*args.sink).store(sum, std::memory_order_relaxed);
}

void copy(const CopyArgs& args, unsigned part, unsigned parts) {
  const auto [begin, end] = share_of(args.bytes, part, parts);
  std::memcpy(args.to + begin, args.from + begin, end - begin);
}

}  // namespace

Kernel<ReadArgs> read_kernel() {
  return {"read", read, with_cuda<cuda::read>()};
}

Kernel<CopyArgs> copy_kernel() {
  return {"copy", copy, with_cuda<cuda::copy>()};
}

}  // namespace shardstream::memory
