// Places the kernels of a file of `bench`, and runs on the same GPU, below the roofs that the
// experiment `roofline` has measured in that file.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/table.hpp"
#include "report/limiter.hpp"

namespace shardstream::report {

struct ExperimentResult;
struct RunFile;

struct Roof {
  std::string name;
  double rate = 0;  ///< GB/s of a memory or a link, Gop/s of arithmetic
};

/// Several rows of one name measure the same roof; the highest one counts.
struct Roofs {
  std::vector<Roof> memory;  ///< of the GPU, the slowest first
  std::vector<Roof> links, arithmetic;
};

/// A kernel, a transfer or a run.
struct Placed {
  std::string source;           ///< the experiment or the workload
  std::string name;             ///< the row of the table, or the file of the run
  double intensity = 0;         ///< operations per byte; infinite without bytes
  double rate = 0;              ///< Gop/s of one GPU
  double traffic = 0;           ///< GB/s of one GPU
  std::string memory = {};      ///< the roof of its bytes
  std::string arithmetic = {};  ///< the roof of its operations; empty: there is none
  /// The shares of these roofs. `compute_share` is NaN if no roof bounds the operations.
  double memory_share = 0, compute_share = 0;
  bool is_run = false;
  bool in_turn = false;  ///< moves its bytes and computes one after the other

  Limiter limiter() const { return limiter_of(memory_share, compute_share, in_turn); }
};

struct Roofline {
  Roofs roofs;
  std::vector<Placed> placed = {};      ///< in the order of the file; runs are last
  std::vector<std::string> notes = {};  ///< sentences on what is not placed
};

/// The memory whose roof bounds `traffic` in GB/s: the slowest one that is at least as fast, within
/// 10 %, or the fastest one. The tables do not tell in which level a kernel finds its data.
const Roof& memory_of(const Roofs& roofs, double traffic);

/// The kernels of rank 0 in all tables with operations, bytes and times, and `runs` on `device`.
/// Empty if no table has roofs.
std::optional<Roofline> roofline_of(std::span<const ExperimentResult> experiments,
                                    const std::string& device,
                                    std::span<const RunFile* const> runs);

/// One row for each placed kernel and run.
Table to_table(const Roofline& roofline);

}  // namespace shardstream::report
