// What a rank of a planned run can do in a second and how much memory it has: as an earlier run has
// measured it (measure.rates), or assumed. For plans without MPI and without a device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "comm/transport.hpp"
#include "core/options.hpp"
#include "io/hdf5/result_file.hpp"

namespace shardstream::measure {

/// The ranks of the run that is planned.
struct Request {
  std::uint64_t ranks = 1;
  std::uint64_t ranks_on_host = 1;  ///< at most `ranks`
  std::string backend = {};         ///< host or cuda, if it is running; empty: not yet chosen
};

/// Remembers what it was asked for. Rates and memory are a rank's.
class Machine {
 public:
  /// Throws UsageError, which names --rates and the file, unless measure.rates is empty or names a
  /// complete result with values that can be, and of the backend of the run that is planned.
  Machine(const Options& options, const Request& request);

  std::uint64_t ranks() const { return request_.ranks; }
  std::uint64_t ranks_on_host() const { return request_.ranks_on_host; }
  bool on_host() const { return on_host_; }
  comm::Transport transport() const { return transport_; }

  /// The ceilings that limit the planned run: no others of the result count. Call it first.
  void go_by(const std::set<std::string>& ceilings);
  /// `ceiling` of the result counts only if same(its conditions), which say what was measured
  /// ("f32, contiguous"); `now` are those of the planned run.
  void compare(const std::string& ceiling, const std::string& now,
               const std::function<bool(const std::string& then)>& same);
  /// Likewise, if the conditions are equal.
  void compare(const std::string& ceiling, const std::string& now);
  /// The ceiling that matters most: warning() begins with it if it is assumed.
  void mind(const std::string& ceiling) { main_ = ceiling; }

  /// Something a second: 10^9 times what the result has, or what is `assumed`, in `unit`.
  double rate(const std::string& ceiling, double assumed, std::string_view unit);
  /// Likewise, bytes/s of link_up, link_down, device_read or host_memory_read. Without `measured`
  /// (bytes/s) a usual rate is assumed.
  double rate(const std::string& ceiling, std::optional<double> measured = {});
  /// Whether the result has measured this ceiling, and it counts.
  bool knows(const std::string& ceiling) const;
  /// The lower of two, if knows(ceiling).
  double limited(double value, const std::string& ceiling, std::string_view unit);
  /// Bytes/s that arrive from other ranks. A result of one host does not tell how ranks of several
  /// reach each other.
  double gather_rate(std::optional<double> measured = {});
  /// Reports that the result has none of these.
  void miss(const std::vector<std::string>& ceilings);

  /// Bytes that a rank's device has; on the host backend its share of what this machine has free;
  /// 0 if pipeline.gpu-memory says what may be used.
  std::uint64_t device_memory(const Options& options);

  /// Which backend is planned for, what was measured of what was asked for, what is assumed, and
  /// what this machine has told.
  std::vector<std::string> lines() const;
  /// If a result was given that tells only in part what was asked for: what of it counts, and what
  /// does not and why. Else empty.
  std::string warning() const;

 private:
  void read(const io::ResultReader& result);
  void read_rates(const io::ResultReader& result);
  void read_topology(const io::ResultReader& result);
  [[noreturn]] void fail(const std::string& what) const;
  void choose_backend(const std::string& wish);
  void refuse(const std::string& ceiling, const std::string& why);
  void note(bool known, const std::string& words);

  Request request_;
  std::filesystem::path path_;  ///< of the result; empty: none
  std::string workload_;        ///< the result's
  struct Rate {
    double value;
    std::string conditions;
  };
  std::map<std::string, Rate> rates_;
  std::map<std::string, std::string> refused_;  ///< of `rates_`, with the reason
  std::vector<std::string> taken_, unused_, missing_;
  std::string main_;  ///< the ceiling that matters most; empty: none
  bool several_hosts_ = false;
  std::optional<std::uint64_t> gpu_memory_;  ///< the least of any rank's
  bool on_host_ = false;
  comm::Transport transport_ = comm::Transport::mpi;
  std::string why_backend_, measured_, assumed_, found_here_;
};

}  // namespace shardstream::measure
