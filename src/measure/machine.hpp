// The machine of a planned run: the rates and the memory of a rank. They were measured by an
// earlier run (measure.rates), or they are assumed. Planning needs neither MPI nor a device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/transport.hpp"
#include "core/log.hpp"
#include "core/options.hpp"
#include "io/hdf5/result_file.hpp"
#include "kernels/backend.hpp"
#include "measure/ceilings.hpp"

namespace shardstream::measure {

/// The ranks of the run that is planned.
struct PlannedRanks {
  std::uint64_t ranks = 1;
  std::uint64_t ranks_on_host = 1;  ///< at most `ranks`
  std::string backend = {};         ///< host or cuda, if it is running; empty: not yet chosen
  std::string why_hosts = {};       ///< the source of ranks_on_host, for the output
  /// Whether ranks_on_host is only an assumption, which a result of several hosts replaces.
  bool assumes_hosts = false;
};

/// The machine of a planned run. Rates and memory are those of one rank. It records the rates
/// that a prediction uses, and the ceilings that it compares, for lines() and warn().
class Machine {
 public:
  /// Reads the result that measure.rates names, if it names one. Throws UsageError, with --rates
  /// and the file, if the result is incomplete, has implausible values, or is of another backend
  /// than the planned run.
  Machine(const Options& options, const PlannedRanks& planned);

  std::uint64_t ranks() const { return planned_.ranks; }
  std::uint64_t ranks_on_host() const { return planned_.ranks_on_host; }
  Backend backend() const { return backend_; }
  comm::Transport transport() const { return transport_; }

  /// Sets the ceilings that limit the planned run. warn() reports other ceilings of the result
  /// as unused.
  void set_ceilings(std::set<std::string> ceilings) { ceilings_ = std::move(ceilings); }
  /// Rejects a ceiling of the result if its conditions, such as "f32, contiguous", are not equal to
  /// `now`, those of the planned run.
  void compare(const std::string& ceiling, const std::string& now);
  /// Rejects a ceiling of the result if its conditions depend on sizes and same() returns false for
  /// them. Results of earlier versions do not have the sizes and are rejected, too.
  void compare(const std::string& ceiling, const std::string& now,
               const std::function<bool(const Sizes& then)>& same);
  /// Sets the most important ceiling. If its rate is assumed, warn() begins with it.
  void set_main_ceiling(const std::string& ceiling) { main_ = ceiling; }

  /// Returns and records the rate of a ceiling: in bytes/s for GB/s, in flop/s for Gflop/s. If the
  /// result does not have the ceiling, `assumed` is used, in GB/s or Gflop/s. `unit` is this unit,
  /// for the output.
  double use_rate(const std::string& ceiling, double assumed, std::string_view unit);
  /// Returns and records the rate of link_up, link_down, device_read, device_copy or
  /// host_memory_read in bytes/s. If the result does not have it, `measured` (bytes/s) or else a
  /// typical rate is used.
  double use_rate(const std::string& ceiling, std::optional<double> measured = {});
  /// Whether the result has this ceiling, and the ceiling is not rejected.
  bool knows(const std::string& ceiling) const;
  /// If knows(ceiling), the minimum of `value` and the rate of the ceiling; otherwise `value`.
  double limited(double value, const std::string& ceiling, std::string_view unit);
  /// Returns and records the rate in bytes/s at which a rank receives data from other ranks. A
  /// result of one host is rejected for a run on several hosts.
  double use_gather_rate(std::optional<double> measured = {});
  /// Records, for warn(), that the result has none of these ceilings.
  void add_missing(const std::vector<std::string>& ceilings);

  /// The device memory of a rank in bytes. On GPUs it is that of the earlier result, or assumed. On
  /// the host backend it is the rank's share of the free memory of this machine. Returns 0 if
  /// pipeline.gpu-memory is set, which replaces it.
  std::uint64_t device_memory(const Options& options);
  /// The number of this machine's CPUs per rank of a host, at least one.
  unsigned threads() const;

  /// A rate of a rank that a prediction uses.
  struct UsedRate {
    std::string ceiling;
    double value;
    std::string unit;  ///< such as "GB/s" or "GB/s between hosts"
    bool is_measured;  ///< by the earlier run; else assumed
  };
  const std::vector<UsedRate>& used_rates() const { return used_rates_; }
  /// Lines for the output of a dry run: the backend, the hosts, the measured rates, the assumed
  /// rates, and the memory of this machine.
  std::vector<std::string> lines() const;
  /// Warns if the result of measure.rates has only some of the requested rates: lists which ones
  /// are used, which ones are not, and why.
  void warn(Log& log) const;

 private:
  void read(const io::ResultReader& file);
  void read_rates(const io::ResultReader& file);
  void read_topology(const io::ResultReader& file);
  [[noreturn]] void fail(const std::string& what) const;
  void choose_backend(const std::string& requested);
  void reject(const std::string& ceiling, const std::string& why);
  void reject_conditions(const std::string& ceiling, const std::string& then,
                         const std::string& now);
  void note(bool known, const std::string& words);

  PlannedRanks planned_;
  std::filesystem::path path_;  ///< of the result; empty: none
  std::string workload_;        ///< of the result
  struct Rate {
    double value;
    std::string conditions;
    Sizes sizes;
  };
  std::map<std::string, Rate> rates_;
  std::map<std::string, std::string> rejected_;  ///< names in `rates_`, with the reasons
  std::set<std::string> ceilings_;               ///< that limit the planned run
  std::vector<std::string> used_, missing_;
  std::vector<UsedRate> used_rates_;
  std::string main_;                           ///< the ceiling that matters most; empty: none
  std::uint64_t ranks_on_host_of_result_ = 0;  ///< the maximum; 0: it is of one host
  std::optional<std::uint64_t> gpu_memory_;    ///< the minimum of all ranks
  Backend backend_ = Backend::cuda;
  comm::Transport transport_ = comm::Transport::mpi;
  std::string why_backend_, measured_, assumed_, found_here_;
};

}  // namespace shardstream::measure
