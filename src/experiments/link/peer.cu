// Copies between two GPUs. With peer access a copy, or a kernel, reaches the other one's
// memory over NVLink or PCIe by itself; without it the driver takes the bytes through the host.
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "experiments/context.hpp"
#include "experiments/formatted.hpp"
#include "experiments/link/host_memory.hpp"
#include "experiments/link/link.hpp"

namespace shardstream::experiments::link {
namespace {

constexpr unsigned threads = 256;

/// A word of 16 bytes a thread.
__global__ void copy_words(const float4* from, float4* to, std::uint64_t words) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < words) to[i] = from[i];
}

/// A GPU as the table names it: its PCI address, which is the same in every process of a host.
std::string address_of(int ordinal) {
  constexpr int length = 32;
  char text[length] = {};
  check(cudaDeviceGetPCIBusId(text, length, ordinal), "cudaDeviceGetPCIBusId");
  return text;
}

/// A buffer on each of two GPUs, of which the own one works.
class Pair {
 public:
  Pair(int own, int other, std::uint64_t bytes, cudaStream_t stream)
      : own_(own), other_(other), stream_(stream), here_(bytes / sizeof(float)) {
    const CurrentGpuGuard guard(other);
    there_.emplace(bytes / sizeof(float));
  }

  /// Lays numbers into the source and clears the target.
  void prepare(bool outwards) const {
    lay_numbers(here_.data(), here_.size(), outwards ? salt : 0, stream_);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const CurrentGpuGuard guard(other_);
    lay_numbers(there_->data(), there_->size(), outwards ? 0 : salt, nullptr);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  bool is_right(bool outwards) const {
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    if (!outwards) return device_has_numbers(here_.data(), here_.size(), salt);
    const CurrentGpuGuard guard(other_);
    return device_has_numbers(there_->data(), there_->size(), salt);
  }

  void copy_naming_both(bool outwards, std::uint64_t bytes) const {
    check(cudaMemcpyPeerAsync(to(outwards), outwards ? other_ : own_, from(outwards),
                              outwards ? own_ : other_, bytes, stream_),
          "cudaMemcpyPeerAsync");
  }
  /// The driver finds the GPUs by the addresses.
  void copy_by_address(bool outwards, std::uint64_t bytes) const {
    check(cudaMemcpyAsync(to(outwards), from(outwards), bytes, cudaMemcpyDefault, stream_),
          "cudaMemcpyAsync");
  }
  /// A kernel on the own GPU writes to the other one's memory, or reads it.
  void copy_by_kernel(bool outwards, std::uint64_t bytes) const {
    const std::uint64_t words = bytes / sizeof(float4);
    copy_words<<<blocks_for(words, threads), threads, 0, stream_>>>(
        reinterpret_cast<const float4*>(from(outwards)), reinterpret_cast<float4*>(to(outwards)),
        words);
    check_launch("copy_words");
  }

 private:
  static constexpr std::uint64_t salt = 1'000'000'007;

  const float* from(bool outwards) const { return outwards ? here_.data() : there_->data(); }
  float* to(bool outwards) const { return outwards ? there_->data() : here_.data(); }

  int own_, other_;
  cudaStream_t stream_;
  DeviceArray<float> here_;
  std::optional<DeviceArray<float>> there_;
};

/// Measures copies between the own GPU and another one.
class Peers {
 public:
  Peers(Bench& bench, Gpu& gpu, int own, std::uint64_t bytes, Measurements& rows)
      : bench_(bench), gpu_(gpu), own_(own), bytes_(bytes), rows_(rows) {}

  /// The same small copy, made by the driver and by a kernel, to and from the GPU that came last.
  std::string note_on_small_copies() const {
    return formatted(
        "A copy of 16 bytes (`small`) to the other GPU takes {:.1f} us by the driver and {:.1f} us "
        "by a kernel, from it {:.1f} and {:.1f} us: a difference to the kernel's time is a cost of "
        "the driver's copy, not of the link.",
        small_.at({"copy", true}), small_.at({"kernel writes", true}), small_.at({"copy", false}),
        small_.at({"kernel reads", false}));
  }

  void add_all(int other) {
    const Pair pair(own_, other, bytes_, gpu_.stream());
    for (const bool outwards : {true, false}) {
      add("copy, no access", other, outwards, pair,
          [&](std::uint64_t bytes) { pair.copy_naming_both(outwards, bytes); });
    }
    const PeerAccessGuard access(other);
    const CurrentGpuGuard guard(other);
    const PeerAccessGuard access_back(own_);
    check(cudaSetDevice(own_), "cudaSetDevice");
    for (const bool outwards : {true, false}) {
      add("copy", other, outwards, pair,
          [&](std::uint64_t bytes) { pair.copy_naming_both(outwards, bytes); });
      add("copy by address", other, outwards, pair,
          [&](std::uint64_t bytes) { pair.copy_by_address(outwards, bytes); });
      add(outwards ? "kernel writes" : "kernel reads", other, outwards, pair,
          [&](std::uint64_t bytes) { pair.copy_by_kernel(outwards, bytes); });
    }
  }

 private:
  void add(const char* method, int other, bool outwards, const Pair& pair,
           const std::function<void(std::uint64_t bytes)>& copy) {
    pair.prepare(outwards);
    copy(bytes_);
    bench_.verify(pair.is_right(outwards), method);
    const Estimate rate = gpu_.time([&] { copy(bytes_); }).rate(static_cast<double>(bytes_));
    const double small = gpu_.time([&] { copy(sizeof(float4)); }).seconds.value * 1e6;
    const int from = outwards ? own_ : other, to = outwards ? other : own_;
    rows_.add({method, address_of(from), address_of(to), small}, rate,
              rate.value / nvlink_rate(bench_), share_of_nvlink(bench_, rate.value));
    small_[{method, outwards}] = small;
  }

  Bench& bench_;
  Gpu& gpu_;
  int own_;
  std::uint64_t bytes_;
  Measurements& rows_;
  std::map<std::pair<std::string, bool>, double> small_;  ///< us, by method and direction
};

}  // namespace

Table peer(Bench& bench) {
  Gpu gpu(bench);
  int own = 0;
  check(cudaGetDevice(&own), "cudaGetDevice");
  const std::uint64_t bytes =
      bench.bytes("peer.size", {.of_device = 0.2}) / sizeof(float4) * sizeof(float4);
  Measurements rows({{"method", ColumnType::text},
                     {"from", ColumnType::text},
                     {"to", ColumnType::text},
                     {"small", ColumnType::real, "us"}},
                    {"rate", ColumnType::real, "GB/s"});
  Peers peers(bench, gpu, own, bytes, rows);
  for (int other = 0; other < visible_gpus(); ++other) {
    if (other != own) peers.add_all(other);
  }
  bench.note(peers.note_on_small_copies());
  return std::move(rows).table();
}

}  // namespace shardstream::experiments::link
