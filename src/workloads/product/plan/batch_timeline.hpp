// The batches of a product on their way through the stages of a rank: a simulation, in seconds.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace shardstream::workloads::product {

/// Seconds of one super-tile. upload, gather, arrive and compute are those of one of its batches
/// with a whole block.
struct Effort {
  double upload = 0;                 ///< readers and host link
  double enqueue = 0;                ///< the calls of the thread that enqueues the work below
  double gather = 0;                 ///< from other ranks
  double arrive = 0;                 ///< kernels that make panels
  double compute = 0;                ///< products of all tiles, and kernels beside them
  double finish = 0;                 ///< kernels that finish one tile
  double exchange = 0;               ///< of partial sums, after the last batch
  double drain = 0, tile_drain = 0;  ///< the downloads of all tiles, and of one
  double write = 0;                  ///< the time that the writers take from the readers
  double tiles = 0;                  ///< number of tiles that this rank finishes

  bool operator==(const Effort&) const = default;
};
/// All numbers of an Effort.
inline constexpr std::array efforts = {&Effort::upload,   &Effort::enqueue, &Effort::gather,
                                       &Effort::arrive,   &Effort::compute, &Effort::finish,
                                       &Effort::exchange, &Effort::drain,   &Effort::tile_drain,
                                       &Effort::write,    &Effort::tiles};

/// The properties of a schedule that all its super-tiles share.
struct Pipeline {
  std::uint64_t blocks = 1;            ///< of a super-tile
  bool begins_shallow = false;         ///< Shape::begins_shallow
  std::uint64_t ring = 1, window = 1;  ///< in batches
  double first_read = 0;               ///< seconds in which all readers fill their first slots
  double last_write = 0;               ///< seconds in which all writers empty their last slots
  bool keeps_b = false;                ///< every tile has its own accumulator
  bool gathers_block = false;          ///< Rates::gathers_block
  bool splits_k = false;               ///< gathers of a super-tile wait for the exchange before

  /// The depth of a block, as a fraction of a whole one.
  double depth(std::uint64_t block) const {
    if (!begins_shallow || block > 2) return 1;
    return block < 2 ? 0.25 : 0.5;
  }
};

/// Sends super-tiles through the stages, one after another. Each stage works on one batch at a
/// time: readers and link, the thread that enqueues, gathers, the device, downloads. Arrivals and
/// products share the device. A batch needs a free buffer of the ring; the buffers of a window are
/// free after its super-tile. Tiles leave at equal distances after the last batch has arrived, as
/// products remain.
class Timeline {
 public:
  explicit Timeline(const Pipeline& pipeline);

  /// Adds `count` equal super-tiles.
  void add(const Effort& effort, std::uint64_t count);
  /// When everything that was added has been written.
  double end() const;

 private:
  void add_one(const Effort& effort);
  void add_batch(const Effort& effort, std::uint64_t block);
  void finish_tiles(const Effort& effort);
  void skip(double seconds);

  Pipeline pipeline_;
  std::uint64_t batches_ = 0;
  // Points in time.
  double uploaded_, enqueued_ = 0, gathered_ = 0, arrived_ = 0, computed_ = 0,
                    drained_ = 0;      ///< of the latest work
  std::vector<double> filled_, free_;  ///< of each buffer: after its last upload, and its last use
};

}  // namespace shardstream::workloads::product
