// Reading host memory over the link instead of copying it first. The kernel starts at once, and the
// data does not pass through device memory. But every further read goes over the link again, and
// words that a warp does not read next to each other are transferred one by one.
#include <array>
#include <cmath>
#include <limits>

#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/link/host_memory.hpp"

namespace shardstream::experiments::link {

constexpr OptionRow options[] = {
    {"zero-copy.size", OptionKind::size, "256MiB", "1MiB..", "Data that is read."},
};

Table zero_copy(Bench& bench);

extern const Experiment about_zero_copy = {
    .name = "zero-copy",
    .group = "link",
    .summary = "A kernel can read pinned host memory over the link, at best as fast as a copy.",
    .explanation =
        "A kernel reads mapped pinned memory over the link, or a copy of the same data in device "
        "memory. It reads the data once, twice, or by the columns of a matrix, so that the lanes "
        "of a warp read words that are far apart. Mapped data does not pass through device "
        "memory, but every read goes over the link. Compared with a copy followed by the kernel, "
        "expect about the same time for one pass, twice the time for two passes, and far more by "
        "columns, because each word needs its own request. CUDA C++ Best Practices Guide, "
        "section Zero Copy.",
    .share = "of the rate of uploads",
    .options = options,
    .figure =
        {.look = Look::bars, .x = "case", .y = "time", .log_y = true, .more_is_better = false},
    .needs = {.ceilings = {"link_up"}},
    .run = with_cuda<zero_copy>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 256;

/// Thread i reads word i.
__global__ void read_in_order(const float* from, std::uint64_t count, float* to) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count) to[i] = from[i];
}

/// Neighbouring threads read words of neighbouring rows, `pitch` words apart. `count` must be a
/// multiple of `pitch`.
__global__ void read_by_columns(const float* from, std::uint64_t count, std::uint64_t pitch,
                                float* to) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  const std::uint64_t rows = count / pitch;
  const std::uint64_t place = i % rows * pitch + i / rows;
  if (i < count) to[place] = from[place];
}

enum class Access { once, twice, by_columns };
constexpr std::array accesses = {Access::once, Access::twice, Access::by_columns};

const char* word_of(Access access) {
  switch (access) {
    case Access::once:
      return "read once";
    case Access::twice:
      return "read twice";
    case Access::by_columns:
      return "by columns";
  }
  return "";
}

/// Numbers in mapped host memory, device memory for a copy of them, and the result of a kernel.
class Operands {
 public:
  Operands(std::uint64_t count, Gpu& gpu)
      : count_(count),
        gpu_(gpu),
        mapped_(count, cudaHostAllocMapped),
        copy_(count),
        result_(count) {
    write_numbers(mapped_.data(), count, 0);
  }

  void read_mapped(Access access) const { read(mapped_.data(), access); }
  void copy_and_read(Access access) const {
    check(cudaMemcpyAsync(copy_.data(), mapped_.data(), copy_.bytes(), cudaMemcpyHostToDevice,
                          gpu_.stream()),
          "cudaMemcpyAsync");
    read(copy_.data(), access);
  }

  void clear() const { result_.clear(gpu_.stream()); }
  bool is_right() const { return device_has_numbers(result_.data(), count_, 0); }

 private:
  void read(const float* from, Access access) const {
    constexpr std::uint64_t pitch = 1024;
    const unsigned blocks = blocks_for(count_, threads);
    for (int pass = 0; pass < (access == Access::twice ? 2 : 1); ++pass) {
      if (access == Access::by_columns) {
        read_by_columns<<<blocks, threads, 0, gpu_.stream()>>>(from, count_, pitch, result_.data());
      } else {
        read_in_order<<<blocks, threads, 0, gpu_.stream()>>>(from, count_, result_.data());
      }
      check_launch("read");
    }
  }

  std::uint64_t count_;
  Gpu& gpu_;
  PinnedArray<float> mapped_;
  DeviceArray<float> copy_, result_;
};

}  // namespace

Table zero_copy(Bench& bench) {
  Gpu gpu(bench);
  constexpr std::uint64_t granule = 1024 * sizeof(float);
  const std::uint64_t bytes = bench.bytes("zero-copy.size", {.of_host = 0.5}) / granule * granule;
  const Operands operands(bytes / sizeof(float), gpu);
  Measurements rows({{"case", ColumnType::text},
                     {"access", ColumnType::text},
                     {"method", ColumnType::text},
                     {"rate", ColumnType::real, "GB/s"}},
                    {"time", ColumnType::real, "ms"});
  for (const Access access : accesses) {
    double copied = std::numeric_limits<double>::quiet_NaN();
    const auto add = [&](const char* method, const std::function<void()>& work) {
      operands.clear();
      work();
      bench.verify(operands.is_right(), method);
      const Measured seconds = gpu.time(work).seconds;
      const double rate = static_cast<double>(bytes) / seconds.value / 1e9;
      const double factor = copied / seconds.value;
      rows.add({std::string(word_of(access)) + ", " + method, word_of(access), method, rate},
               seconds.times(1e3), rate / bench.ceiling("link_up"),
               std::isnan(factor)
                   ? "a copy, then the kernel reads device memory"
                   : formatted("{:.2f} times the time of copying first", 1 / factor));
      if (!(copied > 0)) copied = seconds.value;
    };
    add("copied", [&] { operands.copy_and_read(access); });
    add("mapped", [&] { operands.read_mapped(access); });
  }
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::link
