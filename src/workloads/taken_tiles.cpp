#include "workloads/taken_tiles.hpp"

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "core/parallel.hpp"
#include "kernels/gemm/words.hpp"
#include "workloads/gemm_tiles.hpp"

namespace shardstream::workloads {
namespace {

/// A tile of this rank's that an earlier run has finished.
struct Found {
  GemmTile at;
  const io::Checkpoint::Tile* tile;
};

/// This rank's tiles of each super-tile; of one that the checkpoint has not whole, nothing.
struct Whole {
  bool whole = true;
  std::vector<Found> tiles = {};
};

std::vector<Whole> find(const GemmPlan& plan, const io::Checkpoint& earlier) {
  std::unordered_map<std::uint64_t, const io::Checkpoint::Tile*> by_number;
  for (const io::Checkpoint::Tile& tile : earlier.tiles) by_number[tile.tile] = &tile;
  std::vector<Whole> all;
  for (std::uint64_t number = 0; number < plan.super_tiles(); ++number) {
    const std::vector<GemmTile> tiles = plan.tiles(plan.super_tile(number));
    Whole here;
    for (std::uint64_t i = 0; i < tiles.size(); ++i) {
      if (!plan.owns(i)) continue;
      const auto found = by_number.find(tiles[i].row * plan.tile_columns + tiles[i].column);
      here.whole = here.whole && found != by_number.end();
      if (here.whole) here.tiles.push_back({tiles[i], found->second});
    }
    all.push_back(std::move(here));
  }
  return all;
}

/// A super-tile is whole where every rank has found it so. Collective.
void agree(const launch::Session& session, std::vector<Whole>& all) {
  std::string mine;
  for (const Whole& one : all) mine += one.whole ? '1' : '0';
  for (const std::string& theirs : session.gather(mine)) {
    for (std::size_t i = 0; i < all.size(); ++i) all[i].whole = all[i].whole && theirs[i] == '1';
  }
}

/// Copies a rectangle of C, and returns the sum of its elements' weighted bits; false if it cannot
/// be read.
class Copy {
 public:
  Copy(const GemmOperands& operands, const io::CheckpointReader& reader, const io::RangeWriter& to,
       unsigned threads, launch::Heartbeat& heartbeat)
      : n_(operands.n),
        type_(gemm::accumulator_type(operands.precision)),
        reader_(reader),
        to_(to),
        threads_(threads),
        heartbeat_(heartbeat) {}

  bool rectangle(const io::Checkpoint::Tile& tile, Range rows, Range columns,
                 std::uint64_t& weighted) const {
    const std::size_t row_bytes = columns.count * size_of(type_);
    const std::uint64_t step = std::max<std::uint64_t>(1, piece_bytes / row_bytes);
    std::atomic<std::uint64_t> sum = 0;
    std::atomic<bool> good = true;
    parallel_for(ceil_div(rows.count, step), threads_, [&](std::uint64_t number) {
      const Range some = intersection(rows, {rows.first + number * step, step});
      std::vector<std::byte> piece(some.count * row_bytes);
      if (!good || !reader_.read(tile, some, columns, piece.data(), row_bytes)) {
        good = false;
        return;
      }
      for (std::uint64_t i = 0; i < some.count; ++i) {
        sum += gemm::row_sums(type_, piece.data() + i * row_bytes, columns.count, columns.count)
                   .weighted((some.first + i) * n_ + columns.first);
      }
      to_.write(some, columns, piece.data(), row_bytes);
      heartbeat_.move();
    });
    weighted += sum;
    return good;
  }

 private:
  static constexpr std::size_t piece_bytes = std::size_t{4} << 20;

  std::uint64_t n_;
  ElementType type_;
  const io::CheckpointReader& reader_;
  const io::RangeWriter& to_;
  unsigned threads_;
  launch::Heartbeat& heartbeat_;
};

}  // namespace

std::vector<io::FinishedTile> take_over(const launch::Session& session,
                                        const GemmOperands& operands, const io::Checkpoint& earlier,
                                        const io::RangeWriter* to, io::Journal& journal,
                                        unsigned threads, GemmPlan& plan) {
  const gemm::Tile& edges = plan.problem.tile;
  const io::CheckpointReader reader(earlier);
  std::vector<Whole> all = find(plan, earlier);
  agree(session, all);
  session.collectively([&] {
    for (Whole& one : all) {
      for (const Found& found : one.tiles) {
        if (to == nullptr || !one.whole) break;
        const Copy copy(operands, reader, *to, threads, session.heartbeat());
        const Range rows = elements_of({found.at.row, 1}, edges.m, operands.m);
        const Range columns = elements_of({found.at.column, 1}, edges.n, operands.n);
        const bool mirrored = operands.symmetric && found.at.row != found.at.column;
        std::uint64_t weighted = 0;
        one.whole = copy.rectangle(*found.tile, rows, columns, weighted) &&
                    (!mirrored || copy.rectangle(*found.tile, columns, rows, weighted)) &&
                    weighted == found.tile->weighted;
      }
    }
  });
  agree(session, all);
  std::vector<io::FinishedTile> taken;
  std::vector<std::uint64_t> left;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].whole) {
      left.push_back(plan.passes[i]);
      continue;
    }
    for (const Found& found : all[i].tiles) {
      taken.push_back(*found.tile);
      taken.back().group.reset();
      journal.add(taken.back());
    }
  }
  plan.passes = std::move(left);
  return taken;
}

}  // namespace shardstream::workloads
