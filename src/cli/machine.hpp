// What a rank of a planned run can do in a second and has of memory: as an earlier run has measured
// it (--rates), else assumed. For --dry-run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.hpp"
#include "io/result_file.hpp"
#include "io/source.hpp"
#include "kernels/gemm/grid.hpp"
#include "workloads/gemm_operands.hpp"

namespace shardstream::cli {

/// What a run's readers do, in words: with the same words they are about as fast. Which seed is
/// generated, and whether a file is in the page cache, makes no difference in them.
std::string readers_of(const workloads::GemmOperands& operands, const Options& options);
std::string readers_of(const io::Source& source);

/// Remembers what it was asked for. Rates and memory are a rank's.
class Machine {
 public:
  /// `result` is a result whose /ceilings count; empty: none. Throws UsageError, which names
  /// --rates and the file, unless it is a complete result with values that can be, and of the
  /// backend of the run that is planned.
  Machine(const Options& options, const std::filesystem::path& result);

  bool on_host() const { return on_host_; }

  /// The ceilings that limit the planned run: no others of the result count. To be said first.
  void go_by(const std::set<std::string>& ceilings);
  /// What the result's readers brought as `ceiling` does not count unless they did what is `now` to
  /// be done.
  void compare_readers(const std::string& ceiling, const std::string& now);
  /// What `ceiling`, a product's rate, was in the result does not count either unless its tile was
  /// about as large as `now`. It is the ceiling that matters most: warning() begins with it where
  /// it is assumed.
  void compare_tile(const std::string& ceiling, const gemm::Tile& now);

  /// Something a second: 10^9 times what the result has, or what is `assumed`, in `unit`.
  double rate(const std::string& ceiling, double assumed, std::string_view unit);
  /// Whether the result has measured this ceiling, and it counts.
  bool knows(const std::string& ceiling) const;
  /// The lower of two, where knows(ceiling).
  double limited(double value, const std::string& ceiling, std::string_view unit);
  /// Bytes/s that arrive from other ranks. A result of one host does not tell how ranks of several
  /// reach each other.
  double gather_rate(bool between_hosts);
  /// That the result has none of these is to be told.
  void miss(const std::vector<std::string>& ceilings);

  /// Bytes that a rank's device has; of a host its share of what this machine has free; 0 where
  /// pipeline.gpu-memory says what may be used.
  std::uint64_t device_memory(const Options& options, std::uint64_t ranks_on_host);

  /// Which backend is planned for, what was measured of what was asked for, what is assumed, and
  /// what this machine has told.
  std::vector<std::string> lines() const;
  /// Where a result was given that tells only in part of what `workload` goes by: what of it
  /// counts, and what does not and why. Else empty.
  std::string warning(const std::string& workload) const;

 private:
  void read(const io::ResultReader& result);
  void read_rates(const io::ResultReader& result);
  void read_topology(const io::ResultReader& result);
  [[noreturn]] void fail(const std::string& what) const;
  void choose_backend(const std::string& wish);
  void refuse(const std::string& ceiling, const std::string& why);
  void note(bool known, const std::string& words);

  std::filesystem::path result_;
  std::string workload_, readers_;  ///< the result's
  std::optional<gemm::Tile> tile_;  ///< the result's
  std::map<std::string, double> rates_;
  std::map<std::string, std::string> refused_;  ///< of `rates_`, with the reason
  std::vector<std::string> taken_, unused_, missing_;
  std::string main_;  ///< the ceiling that matters most; empty: none
  bool several_hosts_ = false;
  std::optional<std::uint64_t> gpu_memory_;  ///< the least of any rank's
  bool on_host_ = false;
  std::string why_backend_, measured_, assumed_, found_here_;
};

}  // namespace shardstream::cli
