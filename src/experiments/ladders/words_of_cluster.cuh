// The distributed shared memory of a cluster, for the experiment atomics.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cooperative_groups.h>

namespace shardstream::experiments::ladders {

/// Counters, or bins, that are divided among the blocks of a cluster: the one with number a is word
/// a / blocks of block a % blocks. Only for compute capability 9.0 and above.
class WordsOfCluster {
 public:
  /// Of a cluster. Two multiprocessors, which a GPU has in pairs, hold four blocks of 1024 threads,
  /// so that these clusters leave no multiprocessor idle.
  static constexpr unsigned blocks = 4;

  /// Sets `count` words to zero. All threads of the cluster call it. `of_block` is shared memory
  /// with words_each(count) words.
  __device__ WordsOfCluster(unsigned* of_block, unsigned count)
      : of_block_(of_block), count_(count) {
    for (unsigned i = threadIdx.x; i < words_each(count); i += blockDim.x) of_block[i] = 0;
    synchronize();
  }

  __device__ void add_one(unsigned a) const {
#if __CUDA_ARCH__ >= 900
    const auto cluster = cooperative_groups::this_cluster();
    unsigned* const words = cluster.map_shared_rank(of_block_, a % blocks);
    atomicAdd(&words[a / blocks], 1);
#endif
  }

  /// Adds the words to those in device memory. All threads of the cluster call it.
  __device__ void add_to(unsigned* counters) const {
    synchronize();  // no block changes or leaves its words before all have counted
#if __CUDA_ARCH__ >= 900
    const unsigned rank = cooperative_groups::this_cluster().block_rank();
    for (unsigned i = threadIdx.x; i < words_each(count_); i += blockDim.x) {
      const unsigned a = i * blocks + rank;
      if (of_block_[i] != 0) atomicAdd(&counters[a], of_block_[i]);
    }
#endif
  }

  __host__ __device__ static constexpr unsigned words_each(unsigned count) {
    return (count + blocks - 1) / blocks;
  }

 private:
  __device__ static void synchronize() {
#if __CUDA_ARCH__ >= 900
    cooperative_groups::this_cluster().sync();
#endif
  }

  unsigned* of_block_;
  unsigned count_;
};

}  // namespace shardstream::experiments::ladders
#endif  // SHARDSTREAM_HAS_CUDA
