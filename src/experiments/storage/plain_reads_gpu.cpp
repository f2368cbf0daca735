// The part of `plain-reads` that copies to a GPU.
#include <cstring>

#include "experiments/gpu.hpp"
#include "experiments/storage/storage.hpp"

namespace shardstream::experiments::storage {

Table plain_reads(Bench& bench) {
  const DeviceArray<std::byte> memory(plain_block);
  const Copy to_gpu{.copy =
                        [&](const std::byte* from, std::uint64_t bytes) {
                          check(cudaMemcpy(memory.data(), from, bytes, cudaMemcpyHostToDevice),
                                "cudaMemcpy");
                          // From pageable memory it may return while the last part is still on its
                          // way.
                          check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
                        },
                    .is_right =
                        [&](const std::byte* from, std::uint64_t bytes) {
                          const std::vector<std::byte> back = memory.read(0, bytes);
                          return std::memcmp(back.data(), from, bytes) == 0;
                        }};
  return plain_reads_with(bench, &to_gpu);
}

}  // namespace shardstream::experiments::storage
