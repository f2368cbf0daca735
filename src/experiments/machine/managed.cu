// Managed memory: one address for host and device, whose pages move to where they are used. A page
// that is elsewhere costs a fault. Prefetching moves pages before they are needed, as a copy does,
// and advice tells the driver where they should be.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/units.hpp"
#include "experiments/context.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/link/host_memory.hpp"
#include "experiments/machine/word_sum.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::experiments::machine {

constexpr OptionRow options[] = {
    {"managed.size", OptionKind::size, "512MiB", "16MiB..",
     "Data that moves between host and device. With --quick the default is 128 MiB."},
    {"managed.most", OptionKind::number, "1", "0.5..1",
     "The largest part of the GPU's free memory that managed memory fills."},
};

Table managed(Bench& bench);

namespace {

/// The rate of copies of pinned memory for pages that move at once or stay on the host, and that of
/// memory from cudaMalloc for pages on the GPU. Faults have no expected rate.
double expected_rate(const MeasuredRow& row) {
  const std::string work = row.text("work"), method = row.text("method");
  const bool is_on_host = method == "accessed in place";
  if (is_on_host || (work == "to the GPU" && method.ends_with("prefetched"))) {
    return row.measured({{"work", "to the GPU"}, {"method", "copied, pinned"}});
  }
  return work == "read again" || work == "memory that is filled"
             ? row.measured({{"work", "read again"}, {"method", "cudaMalloc"}})
             : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

extern const Experiment about_managed = {
    .name = "managed",
    .group = "machine",
    .summary =
        "The GPU reads managed memory nearly as fast as copies if its pages are moved before use.",
    .explanation =
        {
            .question = "Can managed memory replace explicit copies without a loss of time?",
            .varies =
                "A kernel reads data that the host has written, reads it again, or writes data "
                "that the host reads, all of it once; a kernel writes memory that nobody has used; "
                "and a kernel reads memory that fills a part of the GPU. Explicit copies between "
                "pinned memory and cudaMalloc's memory are compared with managed memory: left to "
                "its page faults (first touch); prefetched; copied to the GPU and kept on the "
                "host, too (read-mostly); and kept on the host while the kernel reads it over the "
                "link (accessed in place). The time is that of moving and reading or writing, by "
                "the host's clock; only `prefetched, not read` ends with the move.",
            .expectation =
                "Expect memory that is prefetched to the GPU to be as fast as explicit copies, and "
                "faults to be several times slower. Expect less to the host: a note says how much "
                "of that time the move takes, and the rest is the processor's first access, which "
                "maps the pages again. Expect new pages to cost time where they are first needed. "
                "Expect reads in place at the rate of the link, each time. Expect managed memory "
                "that is on the GPU to be as fast as cudaMalloc's, up to all of the free memory. "
                "The time of page faults follows from nothing here, so it has no expected value.",
            .pitfalls =
                "Beyond the free memory, pages move out while others move in, which is slow and "
                "may hang a GPU, so the experiment goes no further. The free memory is that of "
                "now, less 256 MiB for the driver, and the part of a rank that shares the GPU. "
                "More memory gives a higher rate, since the launch and the wait matter less.",
        },
    .read_on = {{Guide::programming, "Unified Memory Programming"}},
    .share = "of the rate of explicit copies, or of memory from cudaMalloc",
    .options = options,
    .expected = expected_rate,
    .exercise =
        {.task = "Predict the rate in GB/s at which memory is prefetched to the GPU and read, "
                 "managed memory is read again, and memory that is accessed in place is read "
                 "again, if copies reach 55 GB/s and a kernel reads device memory at 4000 GB/s.",
         .rows = {{{"work", "to the GPU"}, {"method", "prefetched"}},
                  {{"work", "read again"}, {"method", "managed"}},
                  {{"work", "read again"}, {"method", "accessed in place"}}}},
    .figure = {.look = Look::bars, .x = "method", .y = "rate", .panel = "work"},
    .run = with_cuda<managed>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 256;
using Word = unsigned long long;

/// Word i is salt + i, so that the sum of all words follows from a formula.
__global__ void write_words(Word* to, std::uint64_t count, Word salt) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * threads;
  for (std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x; i < count; i += step) {
    to[i] = salt + i;
  }
}

/// Adds the sum of all words to `*sum`. Each thread reads 16 bytes at a time.
__global__ void add_words(const ulonglong2* from, std::uint64_t pairs, Word* sum) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * threads;
  Word own = 0;
  for (std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x; i < pairs; i += step) {
    const ulonglong2 pair = from[i];
    own += pair.x + pair.y;
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) own += __shfl_down_sync(0xffffffff, own, lanes);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, own);
}

cudaMemLocation on_gpu() {
  cudaMemLocation location{};
  location.type = cudaMemLocationTypeDevice;
  location.id = current_gpu();
  return location;
}

cudaMemLocation on_host() {
  cudaMemLocation location{};
  location.type = cudaMemLocationTypeHost;
  return location;
}

/// Managed memory. The destructor frees it.
class Managed {
 public:
  explicit Managed(std::uint64_t count) : count_(count) {
    check(cudaMallocManaged(&data_, bytes(), cudaMemAttachGlobal), "cudaMallocManaged");
  }
  Managed(const Managed&) = delete;
  Managed& operator=(const Managed&) = delete;
  ~Managed() { device::cuda::report(cudaFree(data_), "cudaFree"); }

  Word* data() const { return data_; }
  std::uint64_t bytes() const { return count_ * sizeof(Word); }

  /// Moves all pages, in the order of `stream`.
  void prefetch(const cudaMemLocation& to, cudaStream_t stream) const {
#if CUDART_VERSION >= 13000
    check(cudaMemPrefetchAsync(data_, bytes(), to, 0, stream), "cudaMemPrefetchAsync");
#else
    check(cudaMemPrefetchAsync_v2(data_, bytes(), to, 0, stream), "cudaMemPrefetchAsync");
#endif
  }
  void advise(cudaMemoryAdvise advice, const cudaMemLocation& about) const {
#if CUDART_VERSION >= 13000
    check(cudaMemAdvise(data_, bytes(), advice, about), "cudaMemAdvise");
#else
    check(cudaMemAdvise_v2(data_, bytes(), advice, about), "cudaMemAdvise");
#endif
  }

 private:
  std::uint64_t count_;
  Word* data_ = nullptr;
};

/// The steps of a method: `prepare` is not timed, `run` is, and `sum` returns the sum of the words.
struct Steps {
  std::function<void()> prepare;
  std::function<void()> run;
  std::function<Word()> sum;
};

/// Checks and measures methods of moving and using data, and adds their rows.
class Cases {
 public:
  Cases(Bench& bench, Gpu& gpu, Measurements& rows, std::uint64_t count)
      : bench_(bench),
        gpu_(gpu),
        rows_(rows),
        count_(count),
        blocks_(8 * static_cast<unsigned>(gpu.properties().multiProcessorCount)),
        sum_(1) {}

  void add_uploads() {
    const DeviceArray<Word> copy(count_);
    const Managed data(count_), in_place(count_);
    write_on_host(data.data());
    write_on_host(in_place.data());
    in_place.advise(cudaMemAdviseSetPreferredLocation, on_host());
    in_place.advise(cudaMemAdviseSetAccessedBy, on_gpu());
    add_moves(data, in_place, add_copies(copy));
    add_reads_again(copy, data, in_place);
  }

  void add_downloads() {
    const char* const work = "to the host";
    const DeviceArray<Word> remote(count_);
    const link::HostMemory host(link::HostKind::pinned, bytes());
    Word found = 0;
    const auto result = [&] { return found; };
    const double copied = add(work, "copied, pinned",
                              {[&] { write(remote.data(), count_); },
                               [&] {
                                 check(cudaMemcpyAsync(host.as<Word>(), remote.data(), bytes(),
                                                       cudaMemcpyDeviceToHost, gpu_.stream()),
                                       "cudaMemcpyAsync");
                                 gpu_.synchronize();
                                 found = read_on_host(host.as<Word>());
                               },
                               result});
    const Managed data(count_);
    const auto write_on_gpu = [&] {
      data.prefetch(on_gpu(), gpu_.stream());
      write(data.data(), count_);
    };
    add(work, "first touch", {write_on_gpu, [&] { found = read_on_host(data.data()); }, result},
        copied);
    const auto prefetch_and_read = [&] {
      data.prefetch(on_host(), gpu_.stream());
      gpu_.synchronize();
      found = read_on_host(data.data());
    };
    const double all = add(work, "prefetched", {write_on_gpu, prefetch_and_read, result}, copied);
    const auto only_prefetch = [&] {
      data.prefetch(on_host(), gpu_.stream());
      gpu_.synchronize();
    };
    const double moved =
        add(work, "prefetched, not read",
            {write_on_gpu, only_prefetch, [&] { return read_on_host(data.data()); }}, copied);
    bench_.note(
        formatted("The move takes {:.0f} % of the time of prefetching to the host and reading "
                  "there.",
                  100 * all / moved));
  }

  void add_new_memory() {
    const char* const work = "new memory";
    std::unique_ptr<DeviceArray<Word>> plain;
    std::unique_ptr<Managed> data;
    const auto renew_plain = [&] {
      plain.reset();
      plain = std::make_unique<DeviceArray<Word>>(count_);
    };
    const auto renew = [&] {
      data.reset();
      data = std::make_unique<Managed>(count_);
    };
    const auto write_data = [&] { write(data->data(), count_); };
    const auto prefetch_and_write = [&] {
      data->prefetch(on_gpu(), gpu_.stream());
      write_data();
    };
    const auto sum_of = [&](const Word* words) {
      read(words);
      return sum_.read()[0];
    };
    const auto sum_of_data = [&] { return sum_of(data->data()); };
    const double usual = add(work, "cudaMalloc",
                             {renew_plain, [&] { write(plain->data(), count_); },
                              [&] { return sum_of(plain->data()); }});
    plain.reset();
    add(work, "first touch", {renew, write_data, sum_of_data}, usual);
    add(work, "prefetched", {renew, prefetch_and_write, sum_of_data}, usual);
  }

  /// Fills `count` words of the GPU's memory, a part of `share` of what is free.
  void add_full_memory(std::uint64_t count, double share) {
    const Managed data(count);
    data.prefetch(on_gpu(), gpu_.stream());
    write(data.data(), count);
    const auto read_all = [&] { read(data.data(), count); };
    add("memory that is filled", formatted("{:.2f} of the free memory", share),
        {nothing, read_all, sum()}, on_device_, 0.9, count);
  }

 private:
  static constexpr double none = std::numeric_limits<double>::quiet_NaN();
  static constexpr Word salt = 0x9e3779b97f4a7c15U;
  static constexpr double part_of_time = 0.5;  // faults and copies of pages vary by some percent
  static void nothing() {}

  std::uint64_t bytes() const { return count_ * sizeof(Word); }

  /// Explicit copies to the GPU, each followed by a kernel. Returns the rate from pinned memory.
  double add_copies(const DeviceArray<Word>& copy) {
    double pinned = none;
    for (const auto kind : {link::HostKind::pinned, link::HostKind::pageable}) {
      const link::HostMemory host(kind, bytes());
      write_on_host(host.as<Word>());
      copy.clear(gpu_.stream());
      const auto copy_and_read = [&] {
        check(cudaMemcpyAsync(copy.data(), host.as<Word>(), bytes(), cudaMemcpyHostToDevice,
                              gpu_.stream()),
              "cudaMemcpyAsync");
        read(copy.data());
      };
      const double rate = add("to the GPU", formatted("copied, {}", std::string(word_of(kind))),
                              {nothing, copy_and_read, sum()}, pinned);
      if (kind == link::HostKind::pinned) pinned = rate;
    }
    return pinned;
  }

  /// Managed memory that is on the host before each sample. Afterwards, `data` is on both sides.
  void add_moves(const Managed& data, const Managed& in_place, double copied) {
    const char* const work = "to the GPU";
    const auto to_host = [&] { data.prefetch(on_host(), gpu_.stream()); };
    const auto discard_copies = [&] {
      data.advise(cudaMemAdviseUnsetReadMostly, on_gpu());
      to_host();
      gpu_.synchronize();
      data.advise(cudaMemAdviseSetReadMostly, on_gpu());
    };
    const auto only_read = [&] { read(data.data()); };
    const auto prefetch_and_read = [&] {
      data.prefetch(on_gpu(), gpu_.stream());
      read(data.data());
    };
    const auto read_in_place = [&] { read(in_place.data()); };
    add(work, "first touch", {to_host, only_read, sum()}, copied);
    add(work, "prefetched", {to_host, prefetch_and_read, sum()}, copied, 0.9);
    add(work, "accessed in place", {nothing, read_in_place, sum()}, copied, 0.8);
    add(work, "read-mostly, prefetched", {discard_copies, prefetch_and_read, sum()}, copied, 0.9);
  }

  /// The copy, the managed memory and its read-only copies are on the GPU.
  void add_reads_again(const DeviceArray<Word>& copy, const Managed& data,
                       const Managed& in_place) {
    const char* const work = "read again";
    const auto read_copy = [&] { read(copy.data()); };
    const auto read_data = [&] { read(data.data()); };
    const auto read_in_place = [&] { read(in_place.data()); };
    const auto to_gpu = [&] { data.prefetch(on_gpu(), gpu_.stream()); };
    on_device_ = add(work, "cudaMalloc", {nothing, read_copy, sum()});
    add(work, "read-mostly", {nothing, read_data, sum()}, on_device_, 0.9);
    data.advise(cudaMemAdviseUnsetReadMostly, on_gpu());
    add(work, "managed", {to_gpu, read_data, sum()}, on_device_, 0.9);
    add(work, "accessed in place", {nothing, read_in_place, sum()}, on_device_);
  }

  void write(Word* to, std::uint64_t count) const {
    write_words<<<blocks_, threads, 0, gpu_.stream()>>>(to, count, salt);
    check_launch("write_words");
  }
  void read(const Word* from) const { read(from, count_); }
  void read(const Word* from, std::uint64_t count) const {
    sum_.clear(gpu_.stream());
    add_words<<<blocks_, threads, 0, gpu_.stream()>>>(reinterpret_cast<const ulonglong2*>(from),
                                                      count / 2, sum_.data());
    check_launch("add_words");
  }
  std::function<Word()> sum() const {
    return [this] { return sum_.read()[0]; };
  }

  static constexpr std::uint64_t words_of_part = std::uint64_t{1} << 19;  // of a thread: 4 MiB

  void write_on_host(Word* to) const {
    for_each_part([&](std::uint64_t first, std::uint64_t last) {
      for (std::uint64_t i = first; i < last; ++i) to[i] = salt + i;
    });
  }
  Word read_on_host(const Word* from) const {
    std::atomic<Word> all = 0;
    for_each_part([&](std::uint64_t first, std::uint64_t last) {
      Word own = 0;
      for (std::uint64_t i = first; i < last; ++i) own += from[i];
      all += own;
    });
    return all;
  }
  void for_each_part(const std::function<void(std::uint64_t, std::uint64_t)>& part) const {
    parallel_for((count_ + words_of_part - 1) / words_of_part, bench_.resources().threads,
                 [&](std::uint64_t i) {
                   part(i * words_of_part, std::min(count_, (i + 1) * words_of_part));
                 });
  }

  /// Returns the rate in GB/s. Shares refer to the rate `reference`; NaN: the row is a reference.
  /// `expected` is the smallest share that is as expected; NaN: the remark states the share.
  double add(const std::string& work, const std::string& method, const Steps& steps,
             double reference = none, double expected = none) {
    return add(work, method, steps, reference, expected, count_);
  }
  double add(const std::string& work, const std::string& method, const Steps& steps,
             double reference, double expected, std::uint64_t count) {
    steps.prepare();
    steps.run();
    gpu_.synchronize();
    bench_.verify(steps.sum() == sum_of_sequence(salt, count), work + ", " + method);
    const Timing timing = bench_.sample(
        [&] {
          steps.prepare();
          gpu_.synchronize();
          const auto begin = Clock::now();
          steps.run();
          gpu_.synchronize();
          return seconds_since(begin);
        },
        part_of_time);
    const double bytes = static_cast<double>(count * sizeof(Word));
    const Measured rate = timing.rate(bytes);
    const double share = rate.value / reference;
    rows_.add({work, method, static_cast<std::int64_t>(bytes)}, rate, share,
              std::isnan(reference) ? "the reference" : remark(share, expected));
    return rate.value;
  }

  static std::string remark(double share, double expected) {
    if (std::isnan(expected)) return formatted("{:.2f} of the reference", share);
    if (share >= expected) return "as expected";
    return formatted("less than expected, {:g}", expected);
  }

  Bench& bench_;
  Gpu& gpu_;
  Measurements& rows_;
  std::uint64_t count_;  ///< words that move, an even number
  unsigned blocks_;
  DeviceArray<Word> sum_;
  double on_device_ = none;  ///< GB/s: the rate of reading cudaMalloc's memory
};

/// The bytes of device memory that managed memory may fill: what is free now, without a part for
/// the driver, and no more than this rank may use.
std::uint64_t free_memory(const Bench& bench) {
  constexpr std::uint64_t for_driver = std::uint64_t{256} << 20;
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  const std::uint64_t own = std::min<std::uint64_t>(free, bench.memory());
  return own - std::min(own, for_driver);
}

/// Throws NotAvailable if pages of managed memory do not move one by one.
void require_moving_pages() {
  int moves_pages = 0;
  check(cudaDeviceGetAttribute(&moves_pages, cudaDevAttrConcurrentManagedAccess, current_gpu()),
        "cudaDeviceGetAttribute");
  if (moves_pages == 0) {
    throw NotAvailable(
        "this system does not move single pages of managed memory (no concurrent managed access, "
        "as on Windows, in WSL, and with some virtual GPUs)");
  }
}

}  // namespace

Table managed(Bench& bench) {
  const std::uint64_t usual = std::uint64_t{bench.is_quick() ? 128U : 512U} << 20;
  // The largest number of arrays of this size at the same time: three.
  const std::uint64_t bytes =
      bench.bytes("managed.size", {.of_device = 0.25, .of_host = 0.2}, usual);
  require_moving_pages();
  Gpu gpu(bench);
  Measurements rows({{"work", ColumnType::text},
                     {"method", ColumnType::text},
                     {"bytes", ColumnType::integer, "B"}},
                    {"rate", ColumnType::real, "GB/s"});
  Cases cases(bench, gpu, rows, bytes / (2 * sizeof(Word)) * 2);
  cases.add_uploads();
  cases.add_downloads();
  cases.add_new_memory();
  const double most = bench.options().number("managed.most");
  std::vector<double> shares = {0.5};
  if (most > 0.5) shares.push_back(most);
  const std::uint64_t free = free_memory(bench);
  for (const double share : shares) {
    const auto count = static_cast<std::uint64_t>(share * static_cast<double>(free)) / sizeof(Word);
    cases.add_full_memory(count / 2 * 2, share);
  }
  bench.note(
      formatted("The free memory is {}: what is free on the GPU for this rank, less 256 MiB.",
                format_size(free)));
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::machine
