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

/// The sum of words [begin, end).
std::uint64_t sum_of(const std::uint64_t* words, std::uint64_t begin, std::uint64_t end) {
  std::uint64_t sums[8] = {};  // several, which the compiler keeps in vector registers
  std::uint64_t i = begin;
  for (; i + 8 <= end; i += 8) {
    for (unsigned k = 0; k < 8; ++k) sums[k] += words[i + k];
  }
  std::uint64_t sum = 0;
  for (; i < end; ++i) sum += words[i];
  for (const std::uint64_t s : sums) sum += s;
  return sum;
}

void read(const ReadArgs& args, unsigned part, unsigned parts) {
  const auto [begin, end] = share_of(args.bytes, part, parts);
  const std::uint64_t sum =
      sum_of(reinterpret_cast<const std::uint64_t*>(args.data), begin / 8, end / 8);
  if (sum == 0x5eed5eedU) std::atomic_ref(*args.sink).store(sum, std::memory_order_relaxed);
}

void sum(const SumArgs& args, unsigned part, unsigned parts) {
  const std::uint64_t words = args.bytes / 8;
  const Rows own = rows_of(words, part, parts);
  std::uint64_t sum = sum_of(reinterpret_cast<const std::uint64_t*>(args.data), own.begin, own.end);
  if (part == 0) {
    std::uint64_t last = 0;
    std::memcpy(&last, args.data + words * 8, args.bytes % 8);
    sum += last;
  }
  std::atomic_ref(*args.sum).fetch_add(sum, std::memory_order_relaxed);
}

void copy(const CopyArgs& args, unsigned part, unsigned parts) {
  const auto [begin, end] = share_of(args.bytes, part, parts);
  std::memcpy(args.to + begin, args.from + begin, end - begin);
}

}  // namespace

Kernel<ReadArgs> read_kernel() {
  return {"read", read, with_cuda<cuda::read>()};
}

Kernel<SumArgs> sum_kernel() {
  return {"sum", sum, with_cuda<cuda::sum>()};
}

Kernel<CopyArgs> copy_kernel() {
  return {"copy", copy, with_cuda<cuda::copy>()};
}

}  // namespace shardstream::memory
