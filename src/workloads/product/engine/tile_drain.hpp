// The way of a finished tile: it is checked on the device, becomes C, leaves through the drain, and
// gets a checksum and is written on the host.
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
#include "workloads/product/checkpoint/finished_tiles.hpp"
#include "workloads/product/engine/panels.hpp"
#include "workloads/product/operands.hpp"
#include "workloads/product/plan/plan.hpp"

namespace shardstream::workloads::product {

/// The result of the checks of this rank's tiles in one repetition.
struct Verdict {
  std::string failure;             ///< empty: everything agrees
  double worst = 0;                ///< maximum of deviation / bound over all rows and tiles
  double detection_threshold = 0;  ///< an error of one element that every row's check finds
  std::uint64_t unchecked = 0;     ///< rows of tiles whose operands are not all finite
  std::uint64_t checksum = 0;      ///< sum of each element's bits times its weight, mod 2^64
  std::uint64_t constant = 0;      ///< zeros on the diagonal of a normalized C
  struct Squares {
    std::uint64_t tile;  ///< row * tile_columns + column
    double sum;          ///< of the squares of its elements, with its mirror
  };
  std::vector<Squares> squares;  ///< of the rank's tiles, in any order

  void add(const FinishedTile& tile);
};

/// Allocates once; a run starts with begin() and ends with finish(). Runtime, operands, plan, `to`
/// and `journal` must outlive it. For the recorder's main thread.
class TileDrain {
 public:
  /// Bytes of host memory: the drain's slots, and a tile of C0 as it is stored and as it is added.
  static std::uint64_t host_bytes(const Operands& operands, const Plan& plan,
                                  const pipeline::StagingSizes& staging);

  /// C's elements are written to `to`, and finished tiles to `journal`, unless these are null.
  TileDrain(runtime::Runtime& runtime, const Operands& operands, const Plan& plan,
            const pipeline::StagingSizes& staging, const io::RangeWriter* to, io::Journal* journal);

  /// The memory of a tile until the tile has left.
  class Station {
   public:
    explicit Station(device::Device& device) : finished_(device.make_event()) {}

   private:
    friend class TileDrain;
    std::unique_ptr<device::Event> finished_;
    std::uint64_t pushed_ = 0;
  };
  /// The sums and factors that turn a tile of centred or scaled variables into C.
  struct Variables {
    const double *row_sums = nullptr, *column_sums = nullptr;
    const double *row_factors = nullptr, *column_factors = nullptr;
  };
  /// The references for the check of a tile: see gemm::CheckTileArgs.
  struct CheckReferences {
    const double* z;
    std::uint64_t z_stride;
    const double* row_squares;
    const double* column_squares;
    Variables variables;
  };

  /// `products`: the products of the whole run, for its progress.
  void begin(device::Stream& stream, std::uint64_t products);
  /// `products` more are enqueued on `stream`. They are not counted again when tiles leave.
  void multiplied(device::Stream& stream, std::uint64_t products);
  /// Adds the products that have been computed to the progress. Called often by the main thread.
  void report_progress();
  /// Finishes the tile at `data`, dense in its padded shape, after the work of `stream`, which has
  /// scratch memory number `scratch` (below Ranks::streams) for itself. Once the tile has left,
  /// `products` are added to the progress.
  void finish_tile(device::Stream& stream, unsigned scratch, std::uint64_t group, TileIndex tile,
                   std::byte* data, const CheckReferences& references, Station& station,
                   std::uint64_t products);
  /// Work enqueued on `stream` after this call may use the station's memory again.
  void wait(device::Stream& stream, const Station& station) {
    drain_.wait(stream, station.pushed_);
  }
  /// Finishes the tiles of a super-tile, a group of the journal, after the work of `stream`.
  /// `unsettled` points to the number, on the device, of variables that need another pass: if it is
  /// above 0, the tiles are not finished. Null means 0.
  void finish_group(device::Stream& stream, std::uint64_t group, const Panels& panels,
                    const std::uint64_t* unsettled);
  /// Waits until everything has been written.
  void finish();

  Verdict verdict() const;
  /// This rank's part of C's checksum in the last run: the weighted sum of all elements' bits.
  std::uint64_t checksum() const;

 private:
  /// The device's report on a tile.
  struct Report {
    gemm::TileVerdict verdict;
    std::uint64_t words, mirror_words;  ///< checksums, as it leaves
    std::uint64_t c_words;              ///< of the C0 that was added
  };
  /// The host's state of a tile in the current run.
  struct Tile {
    std::uint64_t number = 0, group = 0;  ///< number: row * tile_columns + column
    Range rows, columns;                  ///< of C; only these of the tile are valid
    bool present = false, mirrored = false;
    std::uint64_t c_words = 0;   ///< of the C0 that was read
    std::uint64_t products = 0;  ///< added to the progress once it has left
    Report report{};
    std::vector<double> row_squares;
    std::atomic<std::uint64_t> words = 0, mirror_words = 0, weighted = 0;
    std::atomic<std::uint64_t> constant = 0;  ///< zeros on C's diagonal
    std::atomic<std::uint64_t> missing = 0;   ///< rows of it and its mirror, and the report
    double squares = 0;                       ///< once nothing is missing
  };
  struct Group {
    std::unique_ptr<device::Event> finished;
    std::vector<std::uint64_t> checksums;
    std::uint64_t unsettled = 0;
    std::atomic<std::uint64_t> missing = 0;  ///< batches, and the number of unsettled variables
    std::string failure;
  };

  void check(device::Stream& stream, unsigned scratch, const Tile& tile, const std::byte* data,
             const CheckReferences& references, Report* report);
  void apply_alpha_beta(device::Stream& stream, Tile& tile, std::byte* data, Report* report);
  void covariance(device::Stream& stream, const Tile& tile, std::byte* data,
                  const Variables& variables, Report* report);
  void read_c(const Tile& tile);
  void mirror(device::Stream& stream, Tile& tile, const std::byte* data, Report* report);
  void take(Tile& tile, Range rows, const std::byte* data);
  void take_mirror(Tile& tile, Range rows, const std::byte* data);
  void complete_parts(Tile& tile, std::uint64_t parts);
  void complete_parts(Group& group, const Panels& panels, std::uint64_t parts);
  FinishedTile finished(const Tile& tile) const;
  std::string failure(const Tile& tile) const;

  runtime::Runtime& runtime_;
  const Operands& operands_;
  const Plan& plan_;
  const io::RangeWriter* to_;
  io::Journal* journal_;
  ElementType type_;
  std::size_t element_, row_bytes_, tile_bytes_;  ///< of C; of a tile and its rows, padded

  device::Buffer<gemm::RowVerdict> row_verdicts_;  ///< scratch: of a tile for each stream
  device::Buffer<Report> reports_;
  device::Buffer<std::byte> c_device_, c_host_;      ///< one tile of C0
  std::vector<std::byte> c_stored_;                  ///< the same as stored, if that differs
  std::unique_ptr<device::Event> c_read_, c_added_;  ///< behind its upload, and its use
  device::Buffer<std::byte> mirrors_;                ///< on their way out
  std::vector<Station> mirror_stations_;
  std::uint64_t mirrored_ = 0;  ///< tiles of the run that have used one of them

  std::vector<Tile> tiles_;    ///< by plan.number_of()
  std::vector<Group> groups_;  ///< by super-tile
  struct Enqueued {
    std::unique_ptr<device::Event> computed;
    std::uint64_t products;
  };
  std::optional<Progress> progress_;  ///< of the current run
  std::deque<Enqueued> enqueued_;     ///< products that do not count yet
  std::vector<std::unique_ptr<device::Event>> idle_events_;
  pipeline::Drain drain_;  // last: its writers use the rest
};

}  // namespace shardstream::workloads::product
