// The ways to launch a number of small kernels, for the experiment concurrency.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "experiments/device_clock.cuh"
#include "experiments/execution/begin_flag.hpp"
#include "experiments/execution/spans.hpp"
#include "experiments/gpu.hpp"
#include "experiments/graph.hpp"
#include "experiments/launch_attributes.cuh"
#include "experiments/memory/texture_objects.hpp"
#include "experiments/numbers.hpp"

namespace shardstream::experiments::execution {

/// Each block runs for `nanoseconds` by the GPU's timer and stores its times. The first one sets
/// `*has_begun`, which is in the memory of the host.
__device__ inline void run_block(std::uint64_t nanoseconds, Span* spans,
                                 volatile unsigned* has_begun) {
  const std::uint64_t begin = global_nanoseconds();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *has_begun = 1;
    __threadfence_system();
  }
  while (global_nanoseconds() - begin < nanoseconds) {
  }
  if (threadIdx.x == 0) spans[blockIdx.x] = {begin, global_nanoseconds()};
}

__global__ void run_for(std::uint64_t nanoseconds, Span* spans, volatile unsigned* has_begun) {
  run_block(nanoseconds, spans, has_begun);
}

/// The same after the end of the previous kernel, whose last part overlaps the launch of this one.
__global__ void run_dependent(std::uint64_t nanoseconds, Span* spans,
                              volatile unsigned* has_begun) {
  wait_for_previous_grid();
  let_next_grid_begin();
  run_block(nanoseconds, spans, has_begun);
}

// The same kernel, which also uses a resource that may keep kernels apart. It does so before and
// after it waits, so that it holds the resource all the time.

constexpr unsigned scratch = 1024;  // words of local memory of a thread, 4 KiB
constexpr unsigned touched = 32;    // of them

/// Each thread writes words of local memory, at places that are known only at run time, and later
/// adds them up. `step` is `scratch` / `touched`.
__global__ void run_with_local_memory(std::uint64_t nanoseconds, Span* spans,
                                      volatile unsigned* has_begun, unsigned step, float* sums) {
  const std::uint64_t begin = global_nanoseconds();
  if (threadIdx.x == 0) {
    *has_begun = 1;
    __threadfence_system();
  }
  float words[scratch];
  for (unsigned i = 0; i < touched; ++i) {
    words[(i * step + threadIdx.x) % scratch] = static_cast<float>(i);
  }
  while (global_nanoseconds() - begin < nanoseconds) {
  }
  float sum = 0;
  for (unsigned i = 0; i < touched; ++i) sum += words[(i * step + threadIdx.x) % scratch];
  sums[threadIdx.x] = sum;
  if (threadIdx.x == 0) *spans = {begin, global_nanoseconds()};
}

constexpr unsigned textures_of_kernel = 16, texels = 1024;  // texels of each

struct TextureSet {
  cudaTextureObject_t views[textures_of_kernel];
};

/// Each thread adds up a texel of each texture, before it waits and after it.
__global__ void run_with_textures(std::uint64_t nanoseconds, Span* spans,
                                  volatile unsigned* has_begun, TextureSet textures, float* sums) {
  const std::uint64_t begin = global_nanoseconds();
  if (threadIdx.x == 0) {
    *has_begun = 1;
    __threadfence_system();
  }
  float sum = 0;
  const int at = static_cast<int>(threadIdx.x);
  for (const cudaTextureObject_t view : textures.views) sum += tex1Dfetch<float>(view, at);
  while (global_nanoseconds() - begin < nanoseconds) {
  }
  for (const cudaTextureObject_t view : textures.views)
    sum += tex1Dfetch<float>(view, at + int{warp});
  sums[threadIdx.x] = sum;
  if (threadIdx.x == 0) *spans = {begin, global_nanoseconds()};
}

/// Textures of their own memory, which has the numbers of fill().
class Textures {
 public:
  explicit Textures(cudaStream_t stream) : data_(textures_of_kernel * texels) {
    fill(data_, stream);
    for (unsigned i = 0; i < textures_of_kernel; ++i) {
      views_.push_back(std::make_unique<memory::Texture>(
          memory::linear_resource(data_.data() + i * texels, texels), memory::Reading{}));
      set_.views[i] = views_.back()->get();
    }
  }

  const TextureSet& set() const { return set_; }
  /// The sum of a thread of run_with_textures().
  static float expected_sum(unsigned thread) {
    float sum = 0;
    for (const unsigned at : {thread, thread + warp}) {
      for (unsigned i = 0; i < textures_of_kernel; ++i) sum += unit_number(i * texels + at);
    }
    return sum;
  }

 private:
  DeviceArray<float> data_;
  std::vector<std::unique_ptr<memory::Texture>> views_;
  TextureSet set_{};
};

__global__ void do_nothing() {}

inline void count_call(void* calls) {
  ++*static_cast<std::atomic<unsigned>*>(calls);
}

inline void synchronize_device() {
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

enum class LaunchWay {
  one_stream,
  dependent,  ///< one stream; each kernel is launched while the previous one runs
  own_streams,
  chain,            ///< a graph
  dependent_chain,  ///< a graph; each kernel is launched while the previous one runs
  branches,         ///< a graph
  callbacks,        ///< between the kernels of one stream
  legacy,           ///< own streams, with kernels in the legacy default stream between
  per_thread,       ///< own streams, with kernels in the per-thread default stream between
  local,            ///< own streams, with kernels that use local memory
  textures          ///< own streams, with kernels that use textures
};

inline const char* word_of(LaunchWay way) {
  switch (way) {
    case LaunchWay::one_stream:
      return "one stream";
    case LaunchWay::dependent:
      return "one stream, dependent launches";
    case LaunchWay::own_streams:
      return "own streams";
    case LaunchWay::chain:
      return "graph: chain";
    case LaunchWay::dependent_chain:
      return "graph: chain, dependent launches";
    case LaunchWay::branches:
      return "graph: branches";
    case LaunchWay::callbacks:
      return "one stream, callbacks between";
    case LaunchWay::legacy:
      return "own streams, legacy default between";
    case LaunchWay::per_thread:
      return "own streams, per-thread default between";
    case LaunchWay::local:
      return "own streams, local memory";
    case LaunchWay::textures:
      return "own streams, textures";
  }
  return "";
}

inline bool is_graph(LaunchWay way) {
  return way == LaunchWay::chain || way == LaunchWay::dependent_chain || way == LaunchWay::branches;
}
/// Whether the launches are programmatic dependent ones.
inline bool is_dependent(LaunchWay way) {
  return way == LaunchWay::dependent || way == LaunchWay::dependent_chain;
}
/// Whether the kernels use a resource that may keep them apart.
inline bool has_resources(LaunchWay way) {
  return way == LaunchWay::local || way == LaunchWay::textures;
}
/// Whether the kernels need not wait for each other.
inline bool is_parallel(LaunchWay way) {
  return way == LaunchWay::own_streams || way == LaunchWay::branches ||
         way == LaunchWay::per_thread || has_resources(way);
}
inline bool has_own_streams(LaunchWay way) {
  return is_parallel(way) || way == LaunchWay::legacy;
}
/// Whether other kernels run in a default stream. The own streams are then blocking ones, which
/// wait for the legacy default stream, and it for them.
inline bool uses_default_stream(LaunchWay way) {
  return way == LaunchWay::legacy || way == LaunchWay::per_thread;
}

/// A number of kernels that are launched in one of the ways.
class Kernels {
 public:
  Kernels(Gpu& gpu, LaunchWay way, unsigned count, std::uint64_t nanoseconds)
      : gpu_(gpu),
        way_(way),
        count_(count),
        nanoseconds_(nanoseconds),
        own_(has_own_streams(way) ? count : 0,
             uses_default_stream(way) ? cudaStreamDefault : cudaStreamNonBlocking),
        spans_(count),
        sums_(std::uint64_t{count} * warp) {
    if (way == LaunchWay::textures) textures_.emplace(gpu.stream());
    sums_.clear(gpu.stream());
    gpu.synchronize();  // other streams do not wait for that
    if (!is_graph(way)) return;
    const auto begin = Clock::now();
    graph_.emplace(captured(gpu.stream(), [&] { enqueue(); }));
    seconds_to_make_ = seconds_since(begin);
  }
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  ~Kernels() { device::cuda::report(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

  /// Launches all kernels, so that they wait for earlier work of the GPU's stream, and later work
  /// of that stream waits for them. Not for ways that use the default stream.
  void enqueue() {
    const bool forks = !graph_ && has_own_streams(way_);
    if (forks) own_.fork(gpu_.stream());
    launch();
    if (forks) own_.join(gpu_.stream());
  }

  /// Launches all kernels, or the graph.
  void launch() {
    if (graph_) {
      graph_->launch(gpu_.stream());
      return;
    }
    for (unsigned i = 0; i < count_; ++i) {
      if (i > 0) launch_between();
      launch_kernel(i);
    }
  }

  /// Seconds of the host for launch(), without the wait for the kernels.
  double seconds_to_launch() {
    const auto begin = Clock::now();
    launch();
    const double seconds = seconds_since(begin);
    synchronize_device();
    return seconds;
  }

  /// Seconds from the launch of the first kernel, or of the graph, until that kernel runs.
  double seconds_to_start() {
    begun_.forget();
    const auto begin = Clock::now();
    if (graph_) {
      launch();
    } else {
      launch_kernel(0);
    }
    begun_.wait();
    const double seconds = seconds_since(begin);
    synchronize_device();
    return seconds;
  }

  /// The times of the kernels of the last launch. Waits for the device.
  std::vector<Span> spans() const { return spans_.read(); }
  void forget_spans() const { spans_.clear(gpu_.stream()); }
  /// Number of callbacks since the object was made.
  unsigned calls() const { return calls_; }
  /// Seconds to capture and instantiate the graph.
  double seconds_to_make() const { return seconds_to_make_; }
  /// Whether the kernels with resources have the right sums. Waits for the device.
  bool are_sums_right() const {
    if (!has_resources(way_)) return true;
    const std::vector<float> sums = sums_.read();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const float expected = way_ == LaunchWay::local
                                 ? static_cast<float>(touched * (touched - 1) / 2)
                                 : Textures::expected_sum(static_cast<unsigned>(i % warp));
      if (sums[i] != expected) return false;
    }
    return true;
  }

 private:
  cudaStream_t stream_of(unsigned i) const {
    return has_own_streams(way_) ? own_[i] : gpu_.stream();
  }
  void launch_kernel(unsigned i) {
    if (is_dependent(way_)) {
      launch_dependent(i);
      return;
    }
    Span* const span = spans_.data() + i;
    float* const sums = sums_.data() + std::uint64_t{i} * warp;
    if (way_ == LaunchWay::local) {
      run_with_local_memory<<<1, warp, 0, stream_of(i)>>>(nanoseconds_, span, begun_.data(),
                                                          scratch / touched, sums);
    } else if (way_ == LaunchWay::textures) {
      run_with_textures<<<1, warp, 0, stream_of(i)>>>(nanoseconds_, span, begun_.data(),
                                                      textures_->set(), sums);
    } else {
      run_for<<<1, warp, 0, stream_of(i)>>>(nanoseconds_, span, begun_.data());
    }
    check_launch(word_of(way_));
  }
  /// The first kernel depends on all earlier work of the stream, as any other.
  void launch_dependent(unsigned i) {
    if (i == 0) {
      run_dependent<<<1, warp, 0, gpu_.stream()>>>(nanoseconds_, spans_.data(), begun_.data());
      check_launch("run_dependent");
      return;
    }
    const AttributedLaunch launch(1, warp, gpu_.stream(), before_previous_ends());
    launch(run_dependent, nanoseconds_, spans_.data() + i, begun_.data());
  }
  /// Launches the work between two kernels.
  void launch_between() {
    if (way_ == LaunchWay::callbacks) {
      check(cudaLaunchHostFunc(gpu_.stream(), count_call, &calls_), "cudaLaunchHostFunc");
    }
    if (!uses_default_stream(way_)) return;
    do_nothing<<<1, 1, 0, way_ == LaunchWay::legacy ? cudaStreamLegacy : cudaStreamPerThread>>>();
    check_launch("do_nothing");
  }

  Gpu& gpu_;
  LaunchWay way_;
  unsigned count_;
  std::uint64_t nanoseconds_;
  SideStreams own_;
  DeviceArray<Span> spans_;
  BeginFlag begun_;
  DeviceArray<float> sums_;  ///< of the threads of kernels with resources
  std::optional<Textures> textures_;
  std::atomic<unsigned> calls_ = 0;
  std::optional<ExecutableGraph> graph_;
  double seconds_to_make_ = 0;
};

}  // namespace shardstream::experiments::execution
#endif  // SHARDSTREAM_HAS_CUDA
