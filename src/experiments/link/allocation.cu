// The cost of allocating and freeing memory. Calls of the driver take microseconds to milliseconds
// and may wait for the device. A pool, or pieces of one large block, take far less.
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "experiments/context.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/link/host_memory.hpp"

namespace shardstream::experiments::link {

constexpr OptionRow options[] = {
    {"allocation.most", OptionKind::size, "256MiB", "4KiB..",
     "The largest allocation. With --quick the default is 64 MiB."},
};

Table allocation(Bench& bench);

namespace {

/// Calls that map nothing take the same time for all sizes; the pages of registered memory take
/// equal times.
double expected_time(const MeasuredRow& row) {
  const std::string method = row.text("method");
  if (method == "cudaMallocPitch" || method == "cudaMallocAsync, threshold 0") {
    return row.measured({{"method", "cudaMalloc"}}, {"bytes"});
  }
  if (method == "stream-ordered pool" || method == "cudaMallocAsync, keeps memory" ||
      method == "piece of a block") {
    return row.measured({{"bytes", "4096"}}, {"method"});
  }
  if (method == "host, registered") {
    const double first = row.measured({{"bytes", "4096"}}, {"method"});
    const double page = (row.measured({{"bytes", "65536"}}, {"method"}) - first) / 15;
    return first + (row["bytes"] / 4096 - 1) * page;
  }
  const bool is_pinned = method == "host, pinned" && !std::isnan(row["rate"]);
  return is_pinned ? row.measured({{"method", "host, registered"}}, {"bytes"})
                   : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

extern const Experiment about_allocation = {
    .name = "allocation",
    .group = "link",
    .summary =
        "A pool that keeps freed memory allocates in about a microsecond; the driver takes far "
        "longer.",
    .explanation =
        {
            .question = "What does it cost to allocate memory, and how can a program avoid that?",
            .varies =
                "The time to allocate and free memory is measured. On the device: with cudaMalloc, "
                "or with cudaMallocPitch in rows of 4000 bytes, and cudaFree; from a "
                "stream-ordered pool that keeps freed memory; with cudaMallocAsync from the "
                "device's own pool, with a release threshold of 0, the default, and with one that "
                "keeps all memory; and as a piece of one large block. The host waits for the "
                "stream after each pair of calls, but for `stream-ordered pool` only after 32 "
                "pairs. On the host: with cudaHostAlloc, and by registering pages of 4 KiB or 2 "
                "MiB. `rate` is the rate of pinning; it is empty if nothing was pinned.",
            .expectation =
                "From a pool that keeps its memory, expect a microsecond or less for all sizes, "
                "and less for a piece of a block; from the driver, 10 us to milliseconds, because "
                "it maps memory in each call. cudaMallocPitch only rounds up the size, so expect "
                "the time of cudaMalloc. With threshold 0, the pool gives its memory back each "
                "time the stream is synchronised, and maps it again: expect cudaMallocAsync to "
                "take about as long as the driver. If it keeps its memory, expect little more than "
                "the synchronisation. Pinning takes time for each page, so the times of 4 and 64 "
                "KiB show that of a page of 4 KiB; expect cudaHostAlloc to take as long, and huge "
                "pages to be faster. The rate may fall with the size, since the system also clears "
                "each page.",
            .pitfalls =
                "Two cases of the driver are faster than the rule: it cuts small blocks from a "
                "larger one that has room, and it keeps some pinned memory. With threshold 0, "
                "cudaMallocAsync may take several times as long as cudaMalloc. The calls that map "
                "nothing may take longer for large sizes, too. Memory that a pool keeps is not "
                "available to other processes until cudaMemPoolTrimTo gives it back.",
        },
    .read_on = {{Guide::best_practices, "Pinned Memory"},
                {Guide::best_practices, "Allocation"},
                {Guide::programming, "Stream Ordered Memory Allocator"},
                {Guide::programming, "Physical Page Caching Behavior"},
                {Guide::programming, "Device Memory"}},
    .options = options,
    .expected = expected_time,
    .exercise = {.task = "Predict the time in us to allocate and free 1 MiB with cudaMalloc and "
                         "from a stream-ordered pool, and to register 1 MiB and 16 MiB in pages of "
                         "4 KiB, if registering one page takes 80 us and each further one 1.5 us.",
                 .rows = {{{"method", "cudaMalloc"}, {"bytes", "1048576"}},
                          {{"method", "stream-ordered pool"}, {"bytes", "1048576"}},
                          {{"method", "host, registered"}, {"bytes", "1048576"}},
                          {{"method", "host, registered"}, {"bytes", "16777216"}}}},
    .figure = {.look = Look::lines,
               .x = "bytes",
               .y = "time",
               .series = "method",
               .log_x = true,
               .log_y = true,
               .more_is_better = false},
    .run = with_cuda<allocation>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr std::uint64_t keep_all = std::numeric_limits<std::uint64_t>::max();  // a threshold

/// A memory pool of the driver that keeps freed memory. The destructor destroys it.
class Pool {
 public:
  Pool() {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = current_gpu();
    check(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate");
    std::uint64_t keep = keep_all;
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep),
          "cudaMemPoolSetAttribute");
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { device::cuda::report(cudaMemPoolDestroy(pool_), "cudaMemPoolDestroy"); }

  float* take(std::uint64_t bytes, cudaStream_t stream) const {
    void* data = nullptr;
    check(cudaMallocFromPoolAsync(&data, bytes, pool_, stream), "cudaMallocFromPoolAsync");
    return static_cast<float*>(data);
  }
  void give_back(float* data, cudaStream_t stream) const {
    check(cudaFreeAsync(data, stream), "cudaFreeAsync");
  }

 private:
  cudaMemPool_t pool_ = nullptr;
};

/// The release threshold of the device's own pool, from which cudaMallocAsync takes memory: the
/// bytes that the pool keeps when a stream is synchronised. The destructor restores it, and gives
/// the pool's free memory back.
class ReleaseThresholdGuard {
 public:
  explicit ReleaseThresholdGuard(std::uint64_t bytes) {
    check(cudaDeviceGetMemPool(&pool_, current_gpu()), "cudaDeviceGetMemPool");
    check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &before_),
          "cudaMemPoolGetAttribute");
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &bytes),
          "cudaMemPoolSetAttribute");
  }
  ReleaseThresholdGuard(const ReleaseThresholdGuard&) = delete;
  ReleaseThresholdGuard& operator=(const ReleaseThresholdGuard&) = delete;
  ~ReleaseThresholdGuard() {
    device::cuda::report(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &before_),
                         "cudaMemPoolSetAttribute");
    device::cuda::report(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo");
  }

  /// Bytes that the pool holds, free or in use.
  std::uint64_t held() const {
    std::uint64_t bytes = 0;
    check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &bytes),
          "cudaMemPoolGetAttribute");
    return bytes;
  }

 private:
  cudaMemPool_t pool_ = nullptr;
  std::uint64_t before_ = 0;
};

/// Rows of device memory at a pitch that the driver chooses. The destructor frees them.
class PitchedRows {
 public:
  /// Each row has `width` bytes.
  PitchedRows(std::uint64_t width, std::uint64_t count) : count_(count) {
    check(cudaMallocPitch(&data_, &pitch_, width, count), "cudaMallocPitch");
  }
  PitchedRows(const PitchedRows&) = delete;
  PitchedRows& operator=(const PitchedRows&) = delete;
  ~PitchedRows() { device::cuda::report(cudaFree(data_), "cudaFree"); }

  float* data() const { return static_cast<float*>(data_); }
  std::uint64_t pitch() const { return pitch_; }
  std::uint64_t bytes() const { return pitch_ * count_; }

 private:
  void* data_ = nullptr;
  std::uint64_t count_;
  std::size_t pitch_ = 0;
};

/// One block of device memory. Pieces are cut from it in order and given back all at once.
class Arena {
 public:
  explicit Arena(std::uint64_t bytes) : block_(bytes) {}

  float* take(std::uint64_t bytes) {
    constexpr std::uint64_t alignment = 256;
    const std::uint64_t begin = end_;
    end_ = (begin + bytes + alignment - 1) / alignment * alignment;
    expect(end_ <= block_.bytes(), "the arena is large enough for its pieces");
    return reinterpret_cast<float*>(block_.data() + begin);
  }
  void give_back() { end_ = 0; }

 private:
  DeviceArray<std::byte> block_;
  std::uint64_t end_ = 0;
};

/// Registered memory comes first, because the remark on pinned memory compares with it.
constexpr std::array host_kinds = {HostKind::registered, HostKind::registered_huge,
                                   HostKind::pinned};

constexpr double none = std::numeric_limits<double>::quiet_NaN();
/// The driver cuts smaller blocks from a larger one that it has mapped.
constexpr std::uint64_t mapped_block = std::uint64_t{2} << 20;
constexpr std::uint64_t row_width = 4000;  // bytes of a row of cudaMallocPitch
constexpr unsigned fast_pairs = 32;        // pairs of fast calls that are timed together

class Allocation {
 public:
  Allocation(Bench& bench, Gpu& gpu, Measurements& rows) : bench_(bench), gpu_(gpu), rows_(rows) {}

  /// The time of `pairs`, which allocates and frees memory.
  Measured time(const std::function<void()>& pairs) { return gpu_.time_call(pairs).seconds; }
  /// `seconds` is the time of `times` pairs of calls; `rate` is the rate of pinning, NaN if nothing
  /// is pinned.
  void add(const std::string& method, std::uint64_t bytes, const Measured& seconds, unsigned times,
           double rate, const std::string& remark) {
    rows_.add({method, static_cast<std::int64_t>(bytes), rate}, seconds.times(1e6 / times), none,
              remark);
  }

  /// Throws Unverified if device memory does not hold the numbers written to it.
  void verify(float* data, std::uint64_t bytes, const char* method) const {
    write_numbers_on_device(data, bytes / sizeof(float), bytes, gpu_.stream());
    bench_.verify(device_has_numbers(data, bytes / sizeof(float), bytes), method);
  }

 private:
  Bench& bench_;
  Gpu& gpu_;
  Measurements& rows_;
};

void add_driver(Allocation& allocation, std::uint64_t bytes) {
  {
    const DeviceArray<std::byte> once(bytes);
    allocation.verify(reinterpret_cast<float*>(once.data()), bytes, "cudaMalloc");
  }
  const Measured seconds = allocation.time([&] { const DeviceArray<std::byte> each(bytes); });
  allocation.add("cudaMalloc", bytes, seconds, 1, none,
                 bytes < mapped_block ? "cut from a larger block, which the driver may have to map"
                                      : "the driver maps and unmaps it");
}

/// Rows of `row_width` bytes, as many as have `bytes` bytes at the pitch that is expected.
void add_pitched(Allocation& allocation, Bench& bench, std::uint64_t bytes) {
  constexpr std::uint64_t expected_pitch = 4096;
  const std::uint64_t count = bytes / expected_pitch;
  std::uint64_t pitch = 0;
  {
    const PitchedRows once(row_width, count);
    pitch = once.pitch();
    bench.verify(pitch >= row_width && pitch % sizeof(float) == 0, "the pitch of cudaMallocPitch");
    allocation.verify(once.data(), once.bytes(), "cudaMallocPitch");
  }
  const Measured seconds = allocation.time([&] { const PitchedRows each(row_width, count); });
  allocation.add("cudaMallocPitch", bytes, seconds, 1, none,
                 formatted("rows of {} bytes get a pitch of {} bytes", row_width, pitch));
}

void add_pool(Allocation& allocation, Gpu& gpu, const Pool& pool, std::uint64_t bytes) {
  float* const once = pool.take(bytes, gpu.stream());
  allocation.verify(once, bytes, "cudaMallocFromPoolAsync");
  pool.give_back(once, gpu.stream());
  const Measured seconds = allocation.time([&] {
    for (unsigned i = 0; i < fast_pairs; ++i) {
      pool.give_back(pool.take(bytes, gpu.stream()), gpu.stream());
    }
  });
  allocation.add("stream-ordered pool", bytes, seconds, fast_pairs, none,
                 "reuses memory that was freed before");
}

/// The device's own pool, which either gives its memory back or keeps it when the stream is
/// synchronised: here after each pair of calls.
void add_thresholds(Allocation& allocation, Gpu& gpu, std::uint64_t bytes) {
  const auto take = [&] {
    void* data = nullptr;
    check(cudaMallocAsync(&data, bytes, gpu.stream()), "cudaMallocAsync");
    return static_cast<float*>(data);
  };
  const auto give_back = [&](float* data) {
    check(cudaFreeAsync(data, gpu.stream()), "cudaFreeAsync");
  };
  for (const std::uint64_t threshold : {std::uint64_t{0}, keep_all}) {
    const ReleaseThresholdGuard guard(threshold);
    const std::string method =
        threshold == 0 ? "cudaMallocAsync, threshold 0" : "cudaMallocAsync, keeps memory";
    float* const once = take();
    allocation.verify(once, bytes, method.c_str());
    give_back(once);
    const Measured seconds = allocation.time([&] { give_back(take()); });
    gpu.synchronize();
    allocation.add(method, bytes, seconds, 1, none,
                   guard.held() < bytes ? "the pool gave its memory back at the synchronisation"
                                        : "the pool kept its memory at the synchronisation");
  }
}

void add_piece(Allocation& allocation, Arena& arena, std::uint64_t bytes) {
  allocation.verify(arena.take(bytes), bytes, "a piece of a block");
  arena.give_back();
  float* volatile last = nullptr;
  const Measured seconds = allocation.time([&] {
    for (unsigned i = 0; i < 64 * fast_pairs; ++i) {
      last = arena.take(bytes);
      arena.give_back();
    }
  });
  allocation.add("piece of a block", bytes, seconds, 64 * fast_pairs, none,
                 "an addition on the host");
}

/// If pinned memory takes far less time than registering as much, the driver had pinned it before.
void add_host_memory(Allocation& allocation, Bench& bench, std::uint64_t bytes) {
  double registered = 0;  // seconds
  for (const HostKind kind : host_kinds) {
    {
      const HostMemory once(kind, bytes);
      write_numbers(once.as<float>(), bytes / sizeof(float), bytes);
      bench.verify(has_numbers(once.as<float>(), bytes / sizeof(float), bytes), word_of(kind));
    }
    const Measured seconds = allocation.time([&] { const HostMemory each(kind, bytes); });
    if (kind == HostKind::registered) registered = seconds.value;
    const bool is_cached = kind == HostKind::pinned && 3 * seconds.value < registered;
    allocation.add(formatted("host, {}", std::string(word_of(kind))), bytes, seconds, 1,
                   is_cached ? none : static_cast<double>(bytes) / seconds.value / 1e9,
                   is_cached                  ? "cudaHostAlloc: the driver had kept pinned memory"
                   : kind == HostKind::pinned ? "cudaHostAlloc: each page is pinned"
                   : kind == HostKind::registered ? "mapped, touched and pinned in pages of 4 KiB"
                                                  : "mapped, touched and pinned in pages of 2 MiB");
  }
}

bool has_pools() {
  int supported = 0;
  check(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, current_gpu()),
        "cudaDeviceGetAttribute");
  return supported != 0;
}

/// Adds a note on the pitch of rows of several widths.
void show_pitches(Bench& bench, const cudaDeviceProp& properties) {
  std::string pitches;
  for (const std::uint64_t width :
       {std::uint64_t{4}, std::uint64_t{500}, std::uint64_t{516}, row_width, std::uint64_t{4100}}) {
    pitches += formatted("{}{} for {}", std::string(pitches.empty() ? "" : ", "),
                         PitchedRows(width, 16).pitch(), width);
  }
  bench.note(formatted(
      "cudaMallocPitch chose these pitches for rows of so many bytes: {}. Rows of a texture must "
      "have a pitch that is a multiple of {}.",
      pitches, properties.texturePitchAlignment));
}

}  // namespace

Table allocation(Bench& bench) {
  Gpu gpu(bench);
  const std::uint64_t usual = std::uint64_t{bench.is_quick() ? 64U : 256U} << 20;
  // On the device the pool, the block and one allocation have that size at the same time.
  const std::uint64_t max_bytes =
      bench.bytes("allocation.most", {.of_device = 0.3, .of_host = 0.5}, usual) / 4096 * 4096;
  Measurements rows({{"method", ColumnType::text},
                     {"bytes", ColumnType::integer, "B"},
                     {"rate", ColumnType::real, "GB/s"}},
                    {"time", ColumnType::real, "us"});
  Allocation allocation(bench, gpu, rows);
  std::optional<Pool> pool;
  if (has_pools()) {
    pool.emplace();
  } else {
    bench.note("The driver has no stream-ordered pools for this GPU, so these have no rows.");
  }
  Arena arena(max_bytes + 256);
  for (const std::uint64_t bytes : sizes_up_to(4096, max_bytes, 16)) {
    add_driver(allocation, bytes);
    add_pitched(allocation, bench, bytes);
    if (pool) {
      add_pool(allocation, gpu, *pool, bytes);
      add_thresholds(allocation, gpu, bytes);
    }
    add_piece(allocation, arena, bytes);
    add_host_memory(allocation, bench, bytes);
  }
  show_pitches(bench, gpu.properties());
  bench.note(
      "Each time is that of allocating and freeing, by the host's clock; `rate` is the rate of "
      "pinning. A small block of cudaMalloc takes some microseconds if a block that the driver has "
      "already mapped has room for it; otherwise the driver maps a new one.");
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::link
