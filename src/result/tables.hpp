// The tables of the result file, schema 1: a struct for the rows of each, and its columns.
// RESULT_FILE.md describes them. Unknown integers are -1, unknown reals NaN, unknown texts empty or
// "unknown". The tables of /results are those of the workloads.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/table.hpp"

namespace shardstream::io {
class ResultReader;
}

namespace shardstream::result {

template <class Record>
struct Field;  // columns.hpp

inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// A file behind an input, as the run found it.
struct InputFile {
  std::string option = {};  ///< the option that names the input: "input.a"
  std::string path = {};    ///< absolute
  std::string dataset = {};
  std::int64_t size = 0;
  std::int64_t modified_ns = 0;  ///< since 1970

  static constexpr std::string_view table = "/input/files";
  static std::vector<Field<InputFile>> columns();
};

/// A rank: its CPUs and their NUMA nodes, its device, and the NUMA nodes of its pinned memory with
/// numbers of pages, observed on a few MiB.
struct Rank {
  std::int64_t rank = 0;
  std::string host = {};
  std::int64_t local_rank = 0, pid = 0;
  std::string cpus = {}, cpu_nodes = {};
  std::int64_t threads = 0;
  std::string backend = {}, device = {}, gpu_uuid = {}, gpu_pci = {};
  std::int64_t gpu_node = -1;
  std::string pinned_nodes = {};
  std::int64_t numa_nodes = -1;     ///< of the host
  std::int64_t memory_node = -1;    ///< that new memory prefers; -1: none
  std::string numa_balancing = {};  ///< "on" or "off"

  static constexpr std::string_view table = "/topology/ranks";
  static std::vector<Field<Rank>> columns();
};

/// The number of ranks on each host.
std::map<std::string, std::uint64_t> ranks_by_host(const std::vector<Rank>& ranks);

struct GpuPlace {
  std::int64_t gpu = 0;  ///< its row
  std::string host = {}, pci = {}, uuid = {};
  std::int64_t rank = -1;  ///< the first rank that uses the GPU; -1: none
  bool visible = false;    ///< whether CUDA shows it to a rank
  std::int64_t numa_node = -1;

  static std::vector<Field<GpuPlace>> columns();
};

/// See device::GpuFacts.
struct GpuHardware {
  std::string name = {};
  std::int64_t compute_capability = -1, multiprocessors = -1, memory = -1;
  std::int64_t sm_clock_max = -1, memory_clock_max = -1;
  double power_limit = unknown;
  std::string ecc = {};
  std::int64_t pcie_generation = -1, pcie_width = -1;
  std::int64_t pcie_generation_max = -1, pcie_width_max = -1;
  double pcie_rate_max = unknown;
  std::int64_t nvlinks = -1;

  static std::vector<Field<GpuHardware>> columns();
};

/// See device::GpuFacts and device::GpuUse.
struct GpuState {
  std::string compute_mode = {}, persistence_mode = {};
  std::int64_t async_engines = -1, concurrent_kernels = -1, maps_host_memory = -1;
  std::int64_t performance_state = -1;
  std::int64_t utilization = -1;      ///< of a second or less before the observation
  std::int64_t other_processes = -1;  ///< that are no ranks

  static std::vector<Field<GpuState>> columns();
};

/// A GPU that any rank can see; GPUs that ranks use come first.
struct Gpu : GpuPlace, GpuHardware, GpuState {
  static constexpr std::string_view table = "/topology/gpus";
  static std::vector<Field<Gpu>> columns();
};

/// An ordered pair of GPUs that one rank can see, as numbers of rows of /topology/gpus.
struct Peer {
  std::int64_t gpu = 0, peer = 0;
  std::string host = {};
  bool access = false;
  std::int64_t performance_rank = 0;
  std::string link = {};

  static constexpr std::string_view table = "/topology/peers";
  static std::vector<Field<Peer>> columns();
};

/// A phase of a track: the maximum times and calls of a rank, and the bytes of all ranks.
struct Phase {
  std::string track = {}, phase = {};
  double host_seconds = 0, gpu_seconds = 0;
  std::int64_t calls = 0, bytes = 0;
  std::string kind = {};
  double timed_seconds = unknown;  ///< the part inside the timed repetitions

  static constexpr std::string_view table = "/timing/phases";
  static std::vector<Field<Phase>> columns();
};

struct RankNumber {
  std::int64_t rank = 0;

  static std::vector<Field<RankNumber>> columns();
};

/// A phase of a track of one rank, in the order of ranks and tracks.
struct RankPhase : RankNumber, Phase {
  static constexpr std::string_view table = "/timing/rank_phase";
  static std::vector<Field<RankPhase>> columns();
};

/// A timed repetition.
struct Repetition {
  std::int64_t rep = 0;
  double wall = 0;  ///< of the slowest rank
  double skew = 0;  ///< between the fastest and the slowest rank
  std::int64_t elements = 0, bytes = 0;
  std::int64_t throttled = -1;  ///< whether a GPU was throttled: 1 or 0
  double work = 0;              ///< of all ranks; the unit depends on the workload

  static constexpr std::string_view table = "/timing/reps";
  static std::vector<Field<Repetition>> columns();
};

/// `unit` is that of the work.
Table repetitions_table(const std::vector<Repetition>& repetitions, const std::string& unit);

/// The end of a step of the run, in the order of time; see execution/startup.hpp.
struct Step {
  std::string step = {};
  double first = 0, last = 0;  ///< of the ranks, in seconds since the rank's process started
  double utc = 0;              ///< of the slowest rank, in seconds since 1970

  static constexpr std::string_view table = "/timing/startup";
  static std::vector<Field<Step>> columns();
};

/// A span of the timeline.
struct Span {
  std::int64_t rank = 0;
  std::string track = {}, phase = {};
  std::int64_t batch = 0;
  std::int64_t start_ns = 0, dur_ns = 0;  ///< on one clock for all ranks

  static constexpr std::string_view table = "/timeline/spans";
  static std::vector<Field<Span>> columns();
};

/// A sample of a rank's GPU.
struct GpuSample {
  std::int64_t rank = 0;
  double seconds = 0;  ///< since the first timed repetition
  double power = unknown, sm_clock = unknown, memory_clock = unknown, temperature = unknown;
  std::int64_t throttled = -1;  ///< 1 or 0
  std::string clock_reasons = {};
  double took = 0;  ///< the reading itself

  static constexpr std::string_view table = "/telemetry/gpu";
  static std::vector<Field<GpuSample>> columns();
};

/// The order statistics of a metric over the timed repetitions.
struct MetricSummary {
  std::string metric = {};
  std::int64_t n = 0;
  double median = 0, ci_lo = 0, ci_hi = 0, min = 0, q1 = 0, q3 = 0, max = 0;
  std::string unit = {};
  std::string sampling = {};  ///< measure::Convergence
  double autocorrelation = unknown;

  static constexpr std::string_view table = "/summary";
  static std::vector<Field<MetricSummary>> columns();
};

/// A printed metric.
struct PrintedMetric {
  std::string metric = {}, value = {};
  double number = unknown;  ///< NaN if the value is a word
  std::string unit = {};

  static constexpr std::string_view table = "/metrics";
  static std::vector<Field<PrintedMetric>> columns();
};

/// A measured limit of the machine; rates in `unit`. `sizes` are numbers on which the rate depends,
/// by name. Each is a column of its own, which a table has only if a ceiling has the number.
struct Ceiling {
  std::string name = {};
  double per_rank = 0, aggregate = 0;  ///< of the slowest rank, and of all ranks
  std::string unit = {};
  bool on_path = false;         ///< whether all data of the run pass through it
  std::string conditions = {};  ///< of the rate, besides the machine, in words
  std::map<std::string, std::int64_t> sizes = {};

  static constexpr std::string_view table = "/ceilings";
  static std::vector<Field<Ceiling>> columns();
};
Table ceilings_table(const std::vector<Ceiling>& ceilings);
/// Throws UsageError like read().
std::vector<Ceiling> read_ceilings(const io::ResultReader& file);

/// An experiment of `bench`.
struct Experiment {
  std::string name = {}, group = {};
  std::string state =
      {};  ///< "measured", "not available", "rejected", "failed", "wrong" or "not run"
  std::string message = {};        ///< the reason if it is not measured, else empty
  std::int64_t unconverged = 0;    ///< number of timings of all ranks that did not converge
  double sm_clock = 0, power = 0;  ///< medians of rank 0's GPU
  std::int64_t throttled = -1;     ///< number of ranks whose GPU was throttled

  static constexpr std::string_view table = "/bench/experiments";
  static std::vector<Field<Experiment>> columns();
};

/// The tables above as RESULT_FILE.md lists them, a line each: "| `/timing/reps` | rep integer,
/// wall real [s], ... |". A star marks columns that results of earlier versions may lack.
std::vector<std::string> lines_of_tables();

}  // namespace shardstream::result
