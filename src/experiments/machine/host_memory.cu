// Reads and writes of host memory by the processor. Pinned memory is as fast as any other, except
// for write-combined memory: the caches do not hold it, so that each read goes to memory. Memory on
// another NUMA node is slower than near memory.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "core/error.hpp"
#include "core/units.hpp"
#include "device/host/process_memory.hpp"
#include "experiments/bench.hpp"
#include "experiments/context.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/machine/node_guard.hpp"
#include "experiments/machine/word_sum.hpp"
#include "pipeline/crew.hpp"
#include "ranks/cpus.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::experiments::machine {

constexpr OptionRow options[] = {
    {"host-memory.size", OptionKind::size, "256MiB", "1MiB..",
     "Size of each kind of memory. The default is four times the last-level cache, from 256 MiB to "
     "1 GiB; with --quick twice the cache, from 64 to 256 MiB."},
};

Table host_memory(Bench& bench);
Table host_memory_on_host(Bench& bench);

namespace {

/// The rate of pageable memory, except for reads of write-combined memory. A copy of portable
/// memory is as fast as one without that flag.
double expected_rate(const MeasuredRow& row) {
  const std::string memory = row.text("memory"), access = row.text("access");
  if (access == "copy") return row.measured({{"memory", "pinned"}}, {"access"});
  if (memory == "write-combined" && access == "read") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return row.measured({{"memory", "pageable"}}, {"node", "access", "threads"});
}

}  // namespace

extern const Experiment about_host_memory = {
    .name = "host-memory",
    .group = "machine",
    .summary =
        "Pinned memory is as fast as pageable memory, but reads of write-combined memory may be "
        "slow.",
    .explanation =
        {
            .question =
                "Is pinned or write-combined memory slower for the processor than ordinary memory?",
            .varies =
                "The CPUs of a rank write and read pageable memory and the kinds of "
                "cudaHostAlloc: pinned, write-combined, mapped (into the address space of the "
                "GPU) and portable (pinned for all contexts). The memory lies on each NUMA node "
                "in turn; with --quick, on the nearest and on the farthest one. All threads of "
                "the rank work; for the first three kinds, also one thread, but not with --quick. "
                "The ranks take turns. `node` is the node that the experiment asks for. Without a "
                "GPU, only pageable memory is measured. If the rank sees a second GPU, `copy` "
                "copies memory to it that was allocated for the first one, with and without the "
                "flag for portable memory.",
            .expectation =
                "Expect pinned, mapped and portable memory to be about as fast as pageable "
                "memory: for the processor, they are ordinary memory. Expect reads of "
                "write-combined memory to be ten to a hundred times slower, because no cache "
                "holds it, and its writes to be about as fast, if they are in order: use it for "
                "data that the host only writes. Expect another socket's memory to be slower than "
                "near memory. Expect the flag for portable memory to change nothing, since one "
                "address space of hosts and GPUs makes all pinned memory portable.",
            .pitfalls =
                "Pageable memory may have an advantage here, since it is allocated in huge pages. "
                "A virtual machine may ignore the type of write-combined memory, so that its reads "
                "are as fast as others. Each pass reads the next 2 MiB of write-combined memory "
                "for each thread.",
        },
    .read_on = {{Guide::programming, "Portable Memory"},
                {Guide::programming, "Write-Combining Memory"},
                {Guide::programming, "Mapped Memory"},
                {Guide::best_practices, "NUMA Best Practices"}},
    .share = "of the rate of pageable memory on the same node",
    .options = options,
    .expected = expected_rate,
    .exercise = {.task = "Predict the rate in GB/s at which one thread (with --quick, all threads) "
                         "writes and reads pinned memory, and writes and reads write-combined "
                         "memory, if it writes 8 GB/s of pageable memory and reads 10 GB/s.",
                 .rows = {{{"memory", "pinned"}, {"access", "write"}},
                          {{"memory", "pinned"}, {"access", "read"}},
                          {{"memory", "write-combined"}, {"access", "write"}},
                          {{"memory", "write-combined"}, {"access", "read"}}}},
    .figure = {.look = Look::bars, .x = "case", .y = "rate", .panel = "access", .log_y = true},
    .turns = Turns::one_by_one,
    .run = with_cuda<host_memory>(),
    .run_host = host_memory_on_host,
};

namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

enum class Kind { pageable, pinned, write_combined, mapped, portable };
const char* word_of(Kind kind) {
  return std::array{"pageable", "pinned", "write-combined", "mapped",
                    "portable"}[static_cast<std::size_t>(kind)];
}

/// Resident host memory of one kind. The destructor frees it.
class Block {
 public:
  Block(Kind kind, std::uint64_t bytes) : kind_(kind), bytes_(bytes) {
    if (kind == Kind::pageable) {
      data_ = device::host::map_pages(bytes);
      device::host::touch_pages(data_, bytes, 1);  // by this thread, on the node that it prefers
      return;
    }
#if SHARDSTREAM_HAS_CUDA
    const unsigned flags = kind == Kind::write_combined ? cudaHostAllocWriteCombined
                           : kind == Kind::mapped       ? cudaHostAllocMapped
                           : kind == Kind::portable     ? cudaHostAllocPortable
                                                        : cudaHostAllocDefault;
    check(cudaHostAlloc(&data_, bytes, flags), "cudaHostAlloc");
#else
    throw ContractError("only a build with CUDA has pinned memory");
#endif
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {
    if (kind_ == Kind::pageable) {
      device::host::unmap_pages(data_, bytes_);
      return;
    }
#if SHARDSTREAM_HAS_CUDA
    device::cuda::report(cudaFreeHost(data_), "cudaFreeHost");
#endif
  }

  std::uint64_t* words() const {
    return static_cast<std::uint64_t*>(data_);
  }
  std::uint64_t bytes() const {
    return bytes_;
  }

 private:
  Kind kind_;
  std::uint64_t bytes_;
  void* data_ = nullptr;
};

/// Threads that write or read the parts of a block.
class Threads {
 public:
  explicit Threads(unsigned count)
      : sums_(count), crew_(count, [this](unsigned thread) { pass(thread); }) {}

  unsigned count() const { return static_cast<unsigned>(sums_.size()); }

  /// Writes first, first + 1, ...
  void write(std::uint64_t* words, std::uint64_t count, std::uint64_t first) {
    run({words, count, first, true});
  }
  /// The sum of all words.
  std::uint64_t read(std::uint64_t* words, std::uint64_t count) {
    run({words, count, 0, false});
    return std::accumulate(sums_.begin(), sums_.end(), std::uint64_t{0});
  }

 private:
  struct Pass {
    std::uint64_t* words;
    std::uint64_t count, first;
    bool writes;
  };

  void run(const Pass& next) {
    next_ = next;
    crew_.start();
    crew_.wait();
  }
  void pass(unsigned thread) {
    const auto [words, count, first, writes] = next_;
    const std::uint64_t begin = count * thread / this->count();
    const std::uint64_t end = count * (thread + 1) / this->count();
    if (writes) {
      for (std::uint64_t i = begin; i < end; ++i) words[i] = first + i;
      return;
    }
    std::uint64_t sum = 0;
    for (std::uint64_t i = begin; i < end; ++i) sum += words[i];
    sums_[thread] = sum;
  }

  std::vector<std::uint64_t> sums_;
  Pass next_{};
  shardstream::pipeline::Crew crew_;  // last: its threads use the rest
};

/// Measures blocks and adds their rows.
class Cases {
 public:
  Cases(Bench& bench, std::uint64_t bytes, Measurements& rows)
      : bench_(bench), bytes_(bytes), rows_(rows) {}

  /// `node` is where the pages are, in words; `is_near`: the CPUs of this rank belong to it.
  void add(const std::vector<Kind>& kinds, const std::string& node, bool is_near) {
    for (const Kind kind : kinds) {
      const Block block(kind, bytes_);
      if (kind == Kind::pageable) where_.push_back(where_is(block, node));
      std::vector<unsigned> counts = {bench_.resources().threads};
      const bool is_distinct = kind != Kind::mapped && kind != Kind::portable;
      if (is_distinct && !bench_.is_quick() && counts[0] > 1) counts.insert(counts.begin(), 1);
      for (const unsigned count : counts) {
        Threads threads(count);
        add_write(block, kind, node, is_near, threads);
        add_read(block, kind, node, is_near, threads);
      }
    }
  }

  /// The nodes of the pages that the system reports.
  std::string words_on_nodes() const {
    std::string words;
    for (const std::string& each : where_) words += (words.empty() ? "" : "; ") + each;
    return "Pages of pageable memory by node, as the system reports them: " + words + '.';
  }

 private:
  using Key = std::tuple<std::string, std::string, unsigned>;  // access, node, threads
  static constexpr double part_of_time = 0.3;                  // the rates vary by several percent

  static std::string where_is(const Block& block, const std::string& node) {
    return formatted("{} asked, {}", node, ranks::numa_nodes_of(block.words(), block.bytes()));
  }

  void add_write(const Block& block, Kind kind, const std::string& node, bool is_near,
                 Threads& threads) {
    const std::uint64_t count = block.bytes() / sizeof(std::uint64_t);
    ++first_;
    const auto write = [&] { threads.write(block.words(), count, first_); };
    write();
    const std::uint64_t last = block.words()[count - 1], middle = block.words()[count / 2];
    bench_.verify(last == first_ + count - 1 && middle == first_ + count / 2,
                  std::string("writes of ") + word_of(kind) + " memory");
    add_row("write", kind, node, is_near, threads.count(), block.bytes(), write);
  }

  void add_read(const Block& block, Kind kind, const std::string& node, bool is_near,
                Threads& threads) {
    constexpr std::uint64_t piece = std::uint64_t{2} << 20;  // of a thread
    const std::uint64_t bytes = kind == Kind::write_combined
                                    ? std::min(block.bytes(), piece * threads.count())
                                    : block.bytes();
    const std::uint64_t count = bytes / sizeof(std::uint64_t);
    const std::uint64_t places = block.bytes() / bytes;
    std::uint64_t pass = 0;  // the next one reads other words, which a cache does not hold
    const auto read = [&] {
      const std::uint64_t begin = pass++ % places * count;
      bench_.verify(
          threads.read(block.words() + begin, count) == sum_of_sequence(first_ + begin, count),
          std::string("reads of ") + word_of(kind) + " memory");
    };
    add_row("read", kind, node, is_near, threads.count(), bytes, read);
  }

  void add_row(const char* access, Kind kind, const std::string& node, bool is_near,
               unsigned threads, std::uint64_t bytes, const std::function<void()>& pass) {
    const Timing timing = bench_.sample(
        [&] {
          const auto begin = Clock::now();
          pass();
          return seconds_since(begin);
        },
        part_of_time);
    const Measured rate = timing.rate(static_cast<double>(bytes));
    if (kind == Kind::pageable) {
      pageable_[{access, node, threads}] = rate.value;
      if (is_near) near_[{access, "", threads}] = rate.value;
    }
    const double pageable = pageable_.at({access, node, threads});
    const std::string name = formatted("{}, node {}, {}", std::string(word_of(kind)), node,
                                       std::string(threads == 1 ? "1 thread" : "all threads"));
    rows_.add({name, word_of(kind), node, access, std::int64_t{threads},
               static_cast<std::int64_t>(bytes)},
              rate, kind == Kind::pageable ? none : rate.value / pageable,
              kind == Kind::pageable ? distance(access, is_near, threads, rate.value)
                                     : remark(kind, access, rate.value / pageable));
  }

  std::string distance(const char* access, bool is_near, unsigned threads, double rate) const {
    const auto near = near_.find({access, "", threads});
    if (is_near) return "near the CPUs of this rank";
    if (near == near_.end()) return "the nodes of the CPUs are unknown";
    return formatted("far from the CPUs: {:.2f} of near memory", rate / near->second);
  }

  static std::string remark(Kind kind, const char* access, double share) {
    constexpr double as_fast = 0.75, slow = 0.2;
    if (kind == Kind::write_combined && std::string(access) == "read") {
      if (share > slow) return "not slow: the caches of this machine hold write-combined memory";
      return formatted("as expected, {:.0f} times slower: the host should only write it",
                       1 / share);
    }
    if (share >= as_fast) return "as expected: as fast as pageable memory";
    return formatted("less than expected, {:g} of pageable memory", as_fast);
  }

  Bench& bench_;
  std::uint64_t bytes_;
  Measurements& rows_;
  std::uint64_t first_ = 0;         ///< the first word that was written last
  std::map<Key, double> pageable_;  ///< GB/s
  std::map<Key, double> near_;      ///< the same on the node of the CPUs, without its name
  std::vector<std::string> where_;  ///< nodes of pages
};

/// The nodes to measure: near ones first. None if they are unknown.
std::vector<int> nodes_for(const Bench& bench, const std::vector<int>& near) {
  std::vector<int> nodes = ranks::numa_nodes();
  std::ranges::stable_partition(
      nodes, [&](int node) { return std::ranges::find(near, node) != near.end(); });
  if (bench.is_quick() && nodes.size() > 2) nodes = {nodes.front(), nodes.back()};
  return nodes;
}

/// `add_more` adds further rows; it has the size of each kind of memory.
Table measure_kinds(
    Bench& bench, const std::vector<Kind>& kinds,
    const std::function<void(Bench&, std::uint64_t, Measurements&)>& add_more = {}) {
  constexpr std::uint64_t MiB = std::uint64_t{1} << 20;
  const std::uint64_t cache = bench.resources().cache;
  const std::uint64_t usual = bench.is_quick() ? std::clamp(2 * cache, 64 * MiB, 256 * MiB)
                                               : std::clamp(4 * cache, 256 * MiB, 1024 * MiB);
  const std::uint64_t bytes =
      bench.bytes("host-memory.size", {.of_device = 0, .of_host = 0.3}, usual) / MiB * MiB;
  Measurements rows({{"case", ColumnType::text},
                     {"memory", ColumnType::text},
                     {"node", ColumnType::text},
                     {"access", ColumnType::text},
                     {"threads", ColumnType::integer},
                     {"bytes", ColumnType::integer, "B"}},
                    {"rate", ColumnType::real, "GB/s"});
  Cases cases(bench, bytes, rows);
  const std::vector<int> near = ranks::cpus_of(ranks::numa_nodes_of_cpus(ranks::granted_cpus()));
  const std::vector<int> nodes = nodes_for(bench, near);
  std::string problem = nodes.empty() ? "the system does not list them" : "";
  for (const int node : nodes) {
    const NodeGuard guard(node);
    problem = guard.problem();
    if (!problem.empty()) break;
    cases.add(kinds, std::to_string(node), std::ranges::find(near, node) != near.end());
  }
  if (!problem.empty()) {
    cases.add(kinds, "default", true);
    bench.note("The NUMA node of the memory could not be chosen: " + problem + '.');
  }
  bench.note(cases.words_on_nodes());
  if (add_more) add_more(bench, bytes, rows);
  return std::move(rows).table();
}

}  // namespace

Table host_memory_on_host(Bench& bench) {
  return measure_kinds(bench, {Kind::pageable});
}

#if SHARDSTREAM_HAS_CUDA
namespace {

/// Copies pinned memory, which was allocated for this rank's GPU, to another GPU that the rank
/// sees.
void add_copies_to_second_gpu(Bench& bench, std::uint64_t bytes, Measurements& rows) {
  int gpus = 0;
  check(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
  if (gpus < 2) {
    bench.note("Copies of portable memory to a second GPU are not available: this rank sees one.");
    return;
  }
  double without_flag = none;
  for (const Kind kind : {Kind::pinned, Kind::portable}) {
    const Block block(kind, bytes);
    const std::uint64_t count = bytes / sizeof(std::uint64_t);
    std::iota(block.words(), block.words() + count, std::uint64_t{1});
    const CurrentGpuGuard other(current_gpu() == 0 ? 1 : 0);
    const DeviceArray<std::uint64_t> to(count);
    const SideStreams streams(1);
    const auto copy = [&] {
      const auto begin = Clock::now();
      check(cudaMemcpyAsync(to.data(), block.words(), bytes, cudaMemcpyHostToDevice, streams[0]),
            "cudaMemcpyAsync");
      check(cudaStreamSynchronize(streams[0]), "cudaStreamSynchronize");
      return seconds_since(begin);
    };
    copy();
    const std::vector<std::uint64_t> found = to.read();
    bench.verify(std::equal(found.begin(), found.end(), block.words()),
                 std::string("a copy of ") + word_of(kind) + " memory to the second GPU");
    const Measured rate = bench.sample(copy).rate(static_cast<double>(bytes));
    if (kind == Kind::pinned) without_flag = rate.value;
    rows.add({formatted("{}, second GPU", std::string(word_of(kind))), word_of(kind), "default",
              "copy", std::int64_t{1}, static_cast<std::int64_t>(bytes)},
             rate, none,
             kind == Kind::pinned
                 ? "allocated for the first GPU, without the flag"
                 : formatted("{:.2f} of the rate without the flag: all pinned memory is portable "
                             "where hosts and GPUs share one address space",
                             rate.value / without_flag));
  }
}

}  // namespace

Table host_memory(Bench& bench) {
  return measure_kinds(
      bench, {Kind::pageable, Kind::pinned, Kind::write_combined, Kind::mapped, Kind::portable},
      add_copies_to_second_gpu);
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::machine
