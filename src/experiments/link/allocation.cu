// The cost of allocating and freeing memory. Calls of the driver take microseconds to milliseconds
// and may wait for the device. A pool, or pieces of one large block, take far less.
#include <array>
#include <limits>
#include <string>

#include "experiments/context.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/link/host_memory.hpp"

namespace shardstream::experiments::link {

constexpr OptionRow options[] = {
    {"allocation.most", OptionKind::size, "256MiB", "4KiB..",
     "The largest allocation. With --quick the default is 64 MiB."},
};

Table allocation(Bench& bench);

extern const Experiment about_allocation = {
    .name = "allocation",
    .group = "link",
    .summary =
        "Allocating from a pool takes about a microsecond; allocating from the driver takes far "
        "longer.",
    .explanation =
        "The time to allocate and free memory is measured. On the device: with cudaMalloc and "
        "cudaFree, from a stream-ordered pool that keeps freed memory, and as a piece of one "
        "large block. On the host: with cudaHostAlloc, and by registering pages of 4 KiB or 2 "
        "MiB. `rate` is the rate of pinning; it is empty if nothing was pinned. From a pool, "
        "expect a microsecond or less; from the driver, 10 us to milliseconds, because it maps "
        "memory in each call. Two cases are faster: the driver cuts small blocks from a larger "
        "one that has room, and it keeps some pinned memory. Pinning takes time for each page, "
        "so expect huge pages to be faster. The rate may fall with the size, since the system also "
        "clears "
        "each page. CUDA C++ Best Practices Guide, "
        "sections Pinned "
        "Memory and Allocation; Programming Guide, chapter Stream Ordered Memory Allocator.",
    .options = options,
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

/// A memory pool of the driver that keeps freed memory. The destructor destroys it.
class Pool {
 public:
  Pool() {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = current_gpu();
    check(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate");
    std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
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

class Allocation {
 public:
  Allocation(Bench& bench, Gpu& gpu, Measurements& rows) : bench_(bench), gpu_(gpu), rows_(rows) {}

  /// The time of `pairs`, which allocates and frees memory.
  Measured time(const std::function<void()>& pairs) { return gpu_.time_call(pairs).seconds; }
  /// `seconds` is the time of `times` pairs of calls; `rate` is the rate of pinning, NaN if nothing
  /// is pinned.
  void add(const std::string& method, std::uint64_t bytes, const Measured& seconds, unsigned times,
           double rate, const char* remark) {
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

void add_device_memory(Allocation& allocation, Gpu& gpu, const Pool& pool, Arena& arena,
                       std::uint64_t bytes) {
  constexpr unsigned times = 32;
  {
    const DeviceArray<std::byte> once(bytes);
    allocation.verify(reinterpret_cast<float*>(once.data()), bytes, "cudaMalloc");
  }
  const Measured by_driver = allocation.time([&] { const DeviceArray<std::byte> each(bytes); });
  allocation.add("cudaMalloc", bytes, by_driver, 1, none,
                 bytes < mapped_block ? "cut from a larger block, which the driver may have to map"
                                      : "the driver maps and unmaps it");
  float* const from_pool = pool.take(bytes, gpu.stream());
  allocation.verify(from_pool, bytes, "cudaMallocFromPoolAsync");
  pool.give_back(from_pool, gpu.stream());
  const Measured by_pool = allocation.time([&] {
    for (unsigned i = 0; i < times; ++i) {
      pool.give_back(pool.take(bytes, gpu.stream()), gpu.stream());
    }
  });
  allocation.add("stream-ordered pool", bytes, by_pool, times, none,
                 "reuses memory that was freed before");
  allocation.verify(arena.take(bytes), bytes, "a piece of a block");
  arena.give_back();
  float* volatile last = nullptr;
  const Measured by_addition = allocation.time([&] {
    for (unsigned i = 0; i < 64 * times; ++i) {
      last = arena.take(bytes);
      arena.give_back();
    }
  });
  allocation.add("piece of a block", bytes, by_addition, 64 * times, none,
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
  const Pool pool;
  Arena arena(max_bytes + 256);
  for (const std::uint64_t bytes : sizes_up_to(4096, max_bytes, 16)) {
    add_device_memory(allocation, gpu, pool, arena, bytes);
    add_host_memory(allocation, bench, bytes);
  }
  bench.note(
      "Each time is that of allocating and freeing, by the host's clock; `rate` is the rate of "
      "pinning. A small block of cudaMalloc takes some microseconds if a block that the driver has "
      "already mapped has room for it; otherwise the driver maps a new one.");
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::link
