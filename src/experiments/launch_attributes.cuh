// Launches with attributes: thread block clusters, and programmatic dependent launch. Both need
// compute capability 9.0; the device functions do nothing below it.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cstddef>
#include <utility>

#include "experiments/gpu.hpp"

namespace shardstream::experiments {

/// Whether the GPU has clusters and programmatic dependent launch.
inline bool has_launch_attributes(const cudaDeviceProp& gpu) {
  return gpu.major >= 9;
}

/// Consecutive blocks of the grid form clusters of `blocks`, up to 8 on every GPU. The grid must
/// have a multiple of them.
inline cudaLaunchAttribute in_clusters_of(unsigned blocks) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {blocks, 1, 1};
  return attribute;
}

/// The grid may begin before the previous kernel of the stream has ended: as soon as each block of
/// that kernel has ended or called let_next_grid_begin(). It must call wait_for_previous_grid().
inline cudaLaunchAttribute before_previous_ends() {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return attribute;
}

/// The shape of a launch, and its attribute. The object must outlive the calls that take config().
class AttributedLaunch {
 public:
  AttributedLaunch(unsigned blocks, unsigned threads, cudaStream_t stream,
                   const cudaLaunchAttribute& attribute, std::size_t shared = 0)
      : attribute_(attribute) {
    config_.gridDim = dim3(blocks);
    config_.blockDim = dim3(threads);
    config_.dynamicSmemBytes = shared;
    config_.stream = stream;
    config_.attrs = &attribute_;
    config_.numAttrs = 1;
  }
  AttributedLaunch(const AttributedLaunch&) = delete;
  AttributedLaunch& operator=(const AttributedLaunch&) = delete;

  template <class... Parameters, class... Arguments>
  void operator()(void (*kernel)(Parameters...), Arguments&&... arguments) const {
    check(cudaLaunchKernelEx(&config_, kernel, std::forward<Arguments>(arguments)...),
          "cudaLaunchKernelEx");
  }

  /// The number of clusters of this shape that the GPU can run at the same time.
  template <class Kernel>
  unsigned resident_clusters(Kernel kernel) const {
    int clusters = 0;
    check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config_),
          "cudaOccupancyMaxActiveClusters");
    return static_cast<unsigned>(clusters);
  }

 private:
  cudaLaunchAttribute attribute_;
  cudaLaunchConfig_t config_{};
};

/// Waits until the previous grid has ended and its writes are visible, if this grid was launched
/// with before_previous_ends(); otherwise returns at once.
__device__ inline void wait_for_previous_grid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets a grid that was launched with before_previous_ends() begin, once all blocks have called
/// this or have ended. That grid does not see what this one writes before it waits.
__device__ inline void let_next_grid_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace shardstream::experiments
#endif  // SHARDSTREAM_HAS_CUDA
