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
  double shared_memory = 0;  ///< GB/s; 0: not measured
  double issue = 0;          ///< 10^9 instructions of warps per second; 0: not measured
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
  /// The share of `compute` is NaN if no roof bounds the operations. Those of shared memory and of
  /// the instructions are NaN if the table does not count them.
  RoofShares shares = {};
  bool is_run = false;
  bool in_turn = false;  ///< moves its bytes and computes one after the other

  Limiter limiter() const {
    return in_turn ? limiter_in_turn(shares.memory, shares.compute) : limiter_of(shares);
  }
};

struct Roofline {
  Roofs roofs;
  std::vector<Placed> placed = {};      ///< in the order of the file; runs are last
  std::vector<std::string> notes = {};  ///< sentences on what is not placed
};

/// The memory that serves `traffic` in GB/s, and the share of its roof.
struct ServedBy {
  const Roof* memory;
  double share;
};
/// A kernel asks for `traffic`, of which `distinct` is of words that it has not used before (each
/// in GB/s; NaN: unknown). If `distinct` is known, these words come from device memory, and all
/// traffic passes through the slowest cache that is fast enough: the level that reaches the larger
/// share of its roof serves the kernel. Otherwise it is the slowest memory that is fast enough.
/// "Fast enough" is within 10 %; if none is, it is the fastest one.
ServedBy memory_of(const Roofs& roofs, double traffic, double distinct);

/// The kernels of rank 0 in all tables with operations, bytes and times, and `runs` on `device`.
/// Empty if no table has roofs.
std::optional<Roofline> roofline_of(std::span<const ExperimentResult> experiments,
                                    const std::string& device,
                                    std::span<const RunFile* const> runs);

/// One row for each placed kernel and run.
Table to_table(const Roofline& roofline);

}  // namespace shardstream::report
