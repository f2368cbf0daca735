// A ladder: kernels for one computation, from the plain one to the fast one. Each rung changes one
// thing.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/table.hpp"
#include "experiments/gpu.hpp"
#include "experiments/kernel_resources.hpp"

namespace shardstream::experiments::ladders {

/// The columns of a ladder's table before the time: the varied quantities, the rung, its kernel
/// with its resources, the factors over the previous and over the first rung, and the rate. For
/// rows that are measured without a GPU, too, whose resources are NaN.
inline std::vector<Column> columns_of(std::vector<Column> varied, Column rate) {
  varied.insert(varied.end(), {{"rung", ColumnType::text},
                               {"kernel", ColumnType::text},
                               {"registers", ColumnType::real},
                               {"shared", ColumnType::real, "B"},
                               {"occupancy", ColumnType::real, "%"},
                               {"wave_occupancy", ColumnType::real, "%"},
                               {"factor", ColumnType::real},
                               {"total_factor", ColumnType::real},
                               std::move(rate)});
  return varied;
}

/// A note on the columns of factors.
inline constexpr const char* words_on_factors =
    "A factor is the time of the previous rung over the time of this one, and total_factor that of "
    "the first rung over the time of this one.";

/// A note on the columns of resources.
inline constexpr const char* words_on_resources =
    "registers is per thread, shared is static and dynamic shared memory per block. occupancy is "
    "theoretical: the warps of the blocks that fit on a multiprocessor over the warps that it can "
    "hold. wave_occupancy is calculated, not measured: occupancy, averaged over the waves of the "
    "grid, if all blocks took equally long. A rung with several launches shows its first one.";

#if SHARDSTREAM_HAS_CUDA

/// The place of a kernel in its source file.
struct SourceLine {
  const char* file = nullptr;  ///< nullptr: the kernel is not in this catalogue
  int line = 0;
};

/// The place of the kernel that begins `lines` below the call.
constexpr SourceLine kernel_below(int lines = 1, const char* file = __builtin_FILE(),
                                  int line = __builtin_LINE()) {
  return {file, line + lines};
}

/// One step of a ladder.
struct Rung {
  std::string name;
  SourceLine place;
  std::string remark;  ///< the change since the previous rung
  Work work;           ///< of one call
  /// The first launch of a call; none: the launches are unknown, as those of a library.
  std::optional<KernelLaunch> launch = {};
};

/// Measures rungs and adds their rows. Not thread-safe.
class Ladder {
 public:
  /// `varied`: columns before the rung, such as the size. `rate`: the useful bytes or operations
  /// per time, where `unit` of them per second are 1: 1e9 for GB/s, 1e12 for Tflop/s.
  Ladder(Bench& bench, Gpu& gpu, std::vector<Column> varied, Column rate, double unit);

  /// Starts at the bottom, with these values of the varied columns. Every rung handles `useful`
  /// bytes or operations. Shares refer to `reference`, in the unit of the rate; NaN: to nothing.
  void begin(std::vector<Cell> varied, double useful, double reference);

  /// Continues with other values of the varied columns and another reference. The factors of the
  /// next rung are over the previous one, and over the first one since begin().
  void continue_with(std::vector<Cell> varied, double reference);

  /// A place on the ladder: the case, and the times with which the next rung is compared.
  struct Mark {
    std::vector<Cell> varied = {};
    double useful = 0, reference = 0;
    double first = 0, before = 0;  ///< seconds of the first and previous rung; 0: there is none
  };
  const Mark& mark() const { return at_; }
  /// Continues where mark() was called, whatever was measured since.
  void resume(const Mark& mark) { at_ = mark; }

  /// Calls `enqueue` once and throws Unverified unless `is_right`, which may wait for the stream of
  /// the GPU. Then measures `enqueue` (Gpu::time), and returns the seconds.
  Measured climb(const Rung& rung, const std::function<void()>& enqueue,
                 const std::function<bool()>& is_right);

  Table table() && { return std::move(rows_).table(); }

 private:
  Bench& bench_;
  Gpu& gpu_;
  double unit_;
  Mark at_;
  Measurements rows_;
};

#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::ladders
