// What becomes of a finished tile: it is checked on the device, becomes C, leaves through the
// drain, and is summed and written on the host.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/log.hpp"
#include "device/buffer.hpp"
#include "io/output/checkpoint.hpp"
#include "io/output/dataset_file.hpp"
#include "kernels/gemm/check.hpp"
#include "pipeline/drain.hpp"
#include "pipeline/options.hpp"
#include "runtime/runtime.hpp"
#include "workloads/product/checkpoint/taken_tiles.hpp"
#include "workloads/product/engine/panels.hpp"
#include "workloads/product/operands.hpp"
#include "workloads/product/plan/plan.hpp"

namespace shardstream::workloads {

/// What a repetition made of this rank's tiles, as far as it was seen to be right.
struct GemmVerdict {
  std::string failure;             ///< empty: everything agrees
  double worst = 0;                ///< of all rows and column tiles: deviation by bound
  double detection_threshold = 0;  ///< a deviation of one element that no row's check would miss
  std::uint64_t unchecked = 0;     ///< rows of tiles whose operands are not all finite
  std::uint64_t checksum = 0;      ///< sum of each element's bits times its weight, mod 2^64
  std::uint64_t constant = 0;      ///< zeros on the diagonal of a normalized C
  struct Squares {
    std::uint64_t tile;  ///< row * tile_columns + column
    double sum;          ///< of its elements' squares, those of its mirror included
  };
  std::vector<Squares> squares;  ///< of the rank's tiles, in any order

  void add(const FinishedTile& tile);
};

/// Allocates once; a run begins with begin() and ends with finish(). Runtime, operands, plan, `to`
/// and `journal` must outlive it. For the recorder's main thread.
class GemmTiles {
 public:
  /// Of host memory: the drain's slots, and a tile of C0 as it is stored and as it is added.
  static std::uint64_t host_bytes(const GemmOperands& operands, const GemmPlan& plan,
                                  const pipeline::Ring& staging);

  /// C's elements go to `to` as well, and finished tiles to `journal`, if these are not null.
  GemmTiles(runtime::Runtime& runtime, const GemmOperands& operands, const GemmPlan& plan,
            const pipeline::Ring& staging, const io::RangeWriter* to, io::Journal* journal);

  /// Where a tile stands until it has left.
  class Station {
   public:
    explicit Station(device::Device& device) : finished_(device.make_event()) {}

   private:
    friend class GemmTiles;
    std::unique_ptr<device::Event> finished_;
    std::uint64_t pushed_ = 0;
  };
  /// The sums and factors that make C of a tile of centred or scaled variables.
  struct Variables {
    const double *row_sums = nullptr, *column_sums = nullptr;
    const double *row_factors = nullptr, *column_factors = nullptr;
  };
  /// What a tile is checked against: gemm::CheckTileArgs.
  struct Sums {
    const double* z;
    std::uint64_t z_stride;
    const double* row_squares;
    const double* column_squares;
    Variables variables;
  };

  /// The run multiplies `products` blocks: the whole of its progress.
  void begin(device::Stream& stream, std::uint64_t products);
  /// So many more are behind the work of `stream` up to here; tiles that leave do not count them.
  void multiplied(device::Stream& stream, std::uint64_t products);
  /// Counts the products that have been computed by now as progress. By the main thread, often.
  void report_progress();
  /// The tile at `data`, dense in its padded shape, holds all its products behind the work of
  /// `stream`, which has scratch memory `scratch`, below GemmProblem::streams, for itself. Once the
  /// tile has left, `products` more count as progress.
  void finish_tile(device::Stream& stream, unsigned scratch, std::uint64_t group, GemmTile tile,
                   std::byte* data, const Sums& sums, Station& station, std::uint64_t products);
  /// Behind this on `stream` the station's memory may be used again.
  void wait(device::Stream& stream, const Station& station) {
    drain_.wait(stream, station.pushed_);
  }
  /// All batches of the group, a super-tile, have been computed behind the work of `stream`.
  /// `unsettled`: on the device, variables whose tiles another pass computes again, so that these
  /// are not finished; null: none.
  void finish_group(device::Stream& stream, std::uint64_t group, const GemmPanels& panels,
                    const std::uint64_t* unsettled);
  /// Until all has been written.
  void finish();

  GemmVerdict verdict() const;
  /// Of the last run: this rank's part of the sum of all elements' weighted bits.
  std::uint64_t checksum() const;

 private:
  /// What the device says of a tile.
  struct Report {
    gemm::TileVerdict verdict;
    std::uint64_t words, mirror_words;  ///< checksums, as it leaves
    std::uint64_t c_words;              ///< of the C0 that was added
  };
  /// What the host knows of a tile in the run under way.
  struct Tile {
    std::uint64_t number = 0, group = 0;  ///< number: row * tile_columns + column
    Range rows, columns;                  ///< of C; only these of the tile are valid
    bool present = false, mirrored = false;
    std::uint64_t c_words = 0;   ///< of the C0 that was read
    std::uint64_t products = 0;  ///< that count as progress once it has left
    Report report{};
    std::vector<double> row_squares;
    std::atomic<std::uint64_t> words = 0, mirror_words = 0, weighted = 0;
    std::atomic<std::uint64_t> constant = 0;  ///< zeros on C's diagonal
    std::atomic<std::uint64_t> missing = 0;   ///< rows of it and its mirror, and the report
    double squares = 0;                       ///< once nothing is missing
  };
  struct Group {
    std::unique_ptr<device::Event> finished;
    std::vector<std::uint64_t> sums;
    std::uint64_t unsettled = 0;
    std::atomic<std::uint64_t> missing = 0;  ///< batches, and the number of unsettled variables
    std::string failure;
  };

  void check(device::Stream& stream, unsigned scratch, const Tile& tile, const std::byte* data,
             const Sums& sums, Report* report);
  void add_c(device::Stream& stream, Tile& tile, std::byte* data, Report* report);
  void covariance(device::Stream& stream, const Tile& tile, std::byte* data,
                  const Variables& variables, Report* report);
  void read_c(const Tile& tile);
  void mirror(device::Stream& stream, Tile& tile, const std::byte* data, Report* report);
  void take(Tile& tile, Range rows, const std::byte* data);
  void take_mirror(Tile& tile, Range rows, const std::byte* data);
  void arrived(Tile& tile, std::uint64_t parts);
  void arrived(Group& group, const GemmPanels& panels, std::uint64_t parts);
  FinishedTile finished(const Tile& tile) const;
  std::string failure(const Tile& tile) const;

  runtime::Runtime& runtime_;
  const GemmOperands& operands_;
  const GemmPlan& plan_;
  const io::RangeWriter* to_;
  io::Journal* journal_;
  ElementType type_;
  std::size_t element_, row_bytes_, tile_bytes_;  ///< of C; of a tile and its rows, padded

  device::Buffer<gemm::RowVerdict> row_verdicts_;  ///< scratch: of a tile for each stream
  device::Buffer<Report> reports_;
  device::Buffer<std::byte> c_device_, c_host_;      ///< one tile of C0
  std::vector<std::byte> c_stored_;                  ///< the same as stored, where that differs
  std::unique_ptr<device::Event> c_read_, c_added_;  ///< behind its upload, and its use
  device::Buffer<std::byte> mirrors_;                ///< on their way out
  std::vector<Station> mirror_stations_;
  std::uint64_t mirrored_ = 0;  ///< tiles of the run that took one of them in turn

  std::vector<Tile> tiles_;    ///< by plan.number_of()
  std::vector<Group> groups_;  ///< by super-tile
  struct Enqueued {
    std::unique_ptr<device::Event> computed;
    std::uint64_t products;
  };
  std::optional<Progress> progress_;  ///< of the run under way
  std::deque<Enqueued> enqueued_;     ///< products that do not count yet
  std::vector<std::unique_ptr<device::Event>> idle_events_;
  pipeline::Drain drain_;  // last: its writers use the rest
};

}  // namespace shardstream::workloads
