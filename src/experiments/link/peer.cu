// Copies between two GPUs. With peer access, a copy or a kernel accesses the memory of the other
// GPU directly over NVLink or PCIe; without it, the driver moves the data through the host.
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/context.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/link/host_memory.hpp"
#include "experiments/link/rates.hpp"

namespace shardstream::experiments::link {

constexpr OptionRow options[] = {
    {"peer.size", OptionKind::size, "256MiB", "1MiB..", "Data of one copy."},
};

Table peer(Bench& bench);

extern const Experiment about_peer = {
    .name = "peer",
    .group = "link",
    .summary = "GPUs with peer access copy to each other without the host.",
    .explanation =
        {
            .question = "How fast do two GPUs copy to each other, with and without peer access?",
            .varies =
                "Each rank copies between its own GPU and every other GPU that it sees, in both "
                "directions. The methods are: a copy without peer access; a copy with it; a copy "
                "with it that finds the GPUs by their addresses (unified addressing); and a kernel "
                "that writes or reads the memory of the other GPU. `small` is the time of a copy "
                "of 16 bytes.",
            .expectation =
                "Without peer access, the driver moves the data through the host. With peer "
                "access, expect 0.8 of the theoretical rate of the NVLinks or of PCIe; without it, "
                "a fraction of that. Two GPUs that are connected without a switch share only some "
                "of a GPU's NVLinks.",
            .pitfalls =
                "The expected values are 0.8 of the theoretical rate of all NVLinks of the GPU, so "
                "they are too high for a pair that shares only some of them. Copies of other pairs "
                "could use the same links. Each rank measures while the other ranks wait, and a "
                "pair of GPUs that two ranks can measure is measured by the lower one.",
        },
    .read_on = {{Guide::programming, "Peer-to-Peer Memory Access"}},
    .share = "of the theoretical rate of all NVLinks of the GPU",
    .options = options,
    .expected =
        [](const MeasuredRow& row) {
          const auto without_access = [&](const char* column) {
            return row.of_row(column, {{"method", "copy, no access"}}, {"from", "to"});
          };
          const double nvlinks = without_access("rate") / without_access("share");
          return 0.8 * nvlinks;
        },
    .exercise = {.task = "Predict the rate in GB/s of a copy without peer access, of a copy with "
                         "it, and of a kernel that reads the memory of the other GPU, if NVLink "
                         "has a theoretical rate of 450 GB/s and a copy over PCIe reaches 55 GB/s.",
                 .rows = {{{"method", "copy, no access"}},
                          {{"method", "copy"}},
                          {{"method", "kernel reads"}}}},
    .figure = {.look = Look::matrix, .x = "to", .y = "rate", .series = "from", .panel = "method"},
    .needs = {.gpus = 2},
    .turns = Turns::one_by_one,
    .run = with_cuda<peer>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 256;

/// Each thread copies a word of 16 bytes.
__global__ void copy_words(const float4* from, float4* to, std::uint64_t words) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < words) to[i] = from[i];
}

/// A buffer on each of two GPUs, and copies between them, which the own GPU makes.
class Pair {
 public:
  Pair(int own, int other, std::uint64_t bytes, cudaStream_t stream)
      : own_(own), other_(other), stream_(stream), on_own_(bytes / sizeof(float)) {
    const CurrentGpuGuard guard(other);
    on_other_.emplace(bytes / sizeof(float));
  }

  /// Writes numbers to the source, and other ones to the target.
  void prepare(bool outwards) const {
    write_numbers_on_device(on_own_.data(), on_own_.size(), outwards ? salt : 0, stream_);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const CurrentGpuGuard guard(other_);
    write_numbers_on_device(on_other_->data(), on_other_->size(), outwards ? 0 : salt, nullptr);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  bool is_right(bool outwards) const {
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    if (!outwards) return device_has_numbers(on_own_.data(), on_own_.size(), salt);
    const CurrentGpuGuard guard(other_);
    return device_has_numbers(on_other_->data(), on_other_->size(), salt);
  }

  void copy_naming_both(bool outwards, std::uint64_t bytes) const {
    check(cudaMemcpyPeerAsync(to(outwards), outwards ? other_ : own_, from(outwards),
                              outwards ? own_ : other_, bytes, stream_),
          "cudaMemcpyPeerAsync");
  }
  /// The driver derives the GPUs from the addresses.
  void copy_by_address(bool outwards, std::uint64_t bytes) const {
    check(cudaMemcpyAsync(to(outwards), from(outwards), bytes, cudaMemcpyDefault, stream_),
          "cudaMemcpyAsync");
  }
  /// A kernel on the own GPU writes to the memory of the other GPU, or reads it.
  void copy_by_kernel(bool outwards, std::uint64_t bytes) const {
    const std::uint64_t words = bytes / sizeof(float4);
    copy_words<<<blocks_for(words, threads), threads, 0, stream_>>>(
        reinterpret_cast<const float4*>(from(outwards)), reinterpret_cast<float4*>(to(outwards)),
        words);
    check_launch("copy_words");
  }

 private:
  static constexpr std::uint64_t salt = 1'000'000'007;

  const float* from(bool outwards) const { return outwards ? on_own_.data() : on_other_->data(); }
  float* to(bool outwards) const { return outwards ? on_other_->data() : on_own_.data(); }

  int own_, other_;
  cudaStream_t stream_;
  DeviceArray<float> on_own_;
  std::optional<DeviceArray<float>> on_other_;
};

/// Measures copies between the own GPU and another one.
class Peers {
 public:
  Peers(Bench& bench, Gpu& gpu, std::uint64_t bytes, Measurements& rows)
      : bench_(bench), gpu_(gpu), bytes_(bytes), rows_(rows) {}

  /// Compares small copies by the driver and by a kernel, for the last GPU that was measured.
  std::string note_on_small_copies() const {
    return formatted(
        "A copy of 16 bytes (`small`) to the other GPU takes {:.1f} us by the driver and {:.1f} us "
        "by a kernel, from it {:.1f} and {:.1f} us. The difference is a cost of the driver's copy, "
        "not of the link.",
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
    const Measured rate = gpu_.time([&] { copy(bytes_); }).rate(static_cast<double>(bytes_));
    const double small = gpu_.time([&] { copy(sizeof(float4)); }).seconds.value * 1e6;
    const int from = outwards ? own_ : other, to = outwards ? other : own_;
    rows_.add({method, address(from), address(to), small}, rate, rate.value / nvlink_rate(bench_),
              share_of_nvlink(bench_, rate.value));
    small_[{method, outwards}] = small;
  }

  const std::string& address(int gpu) const { return addresses_[static_cast<std::size_t>(gpu)]; }

  Bench& bench_;
  Gpu& gpu_;
  int own_ = current_gpu();
  std::vector<std::string> addresses_ = visible_addresses();
  std::uint64_t bytes_;
  Measurements& rows_;
  std::map<std::pair<std::string, bool>, double> small_;  ///< us, by method and direction
};

}  // namespace

Table peer(Bench& bench) {
  Gpu gpu(bench);
  const std::uint64_t bytes =
      bench.bytes("peer.size", {.of_device = 0.2}) / sizeof(float4) * sizeof(float4);
  Measurements rows({{"method", ColumnType::text},
                     {"from", ColumnType::text},
                     {"to", ColumnType::text},
                     {"small", ColumnType::real, "us"}},
                    {"rate", ColumnType::real, "GB/s"});
  Peers peers(bench, gpu, bytes, rows);
  for (const int other : bench.partners()) peers.add_all(other);
  if (!bench.partners().empty()) bench.note(peers.note_on_small_copies());
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::link
