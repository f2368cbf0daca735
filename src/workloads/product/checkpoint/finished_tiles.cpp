#include "workloads/product/checkpoint/finished_tiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "io/output/temporary_files.hpp"
#include "kernels/gemm/panel/checksum.hpp"
#include "workloads/product/data/elements.hpp"

namespace shardstream::workloads::product {
namespace {

/// A tile of this rank's that an earlier run has finished.
struct Found {
  TileIndex at;
  std::size_t run;  ///< index into io::Checkpoint::runs
  FinishedTile finished;
};

/// This rank's tiles of a super-tile. If the checkpoint lacks one of them, the super-tile is not
/// whole.
struct Whole {
  bool whole = true;
  std::vector<Found> tiles = {};
};

/// The number of variables with statistics in the record of a tile.
std::uint64_t variables_of(const Problem& problem, TileIndex tile) {
  if (!problem.describes_variables() || tile.row != tile.column) return 0;
  return elements_of({tile.row, 1}, problem.tile.m, problem.m).count;
}

std::vector<Whole> find(const Plan& plan, const io::Checkpoint& earlier) {
  std::unordered_map<std::uint64_t, const io::Checkpoint::RunPiece*> by_number;
  for (const io::Checkpoint::RunPiece& piece : earlier.pieces) by_number[piece.number] = &piece;
  std::vector<Whole> all;
  for (std::uint64_t number = 0; number < plan.super_tiles(); ++number) {
    const std::vector<TileIndex> tiles = plan.shape.tiles(plan.super_tile(number));
    Whole here;
    for (std::uint64_t i = 0; i < tiles.size(); ++i) {
      if (!plan.owns(i)) continue;
      const auto found = by_number.find(tiles[i].row * plan.shape.tile_columns + tiles[i].column);
      const auto finished = found != by_number.end() ? tile_of(*found->second) : std::nullopt;
      // A record with more unchecked or infinite rows than a tile has is invalid.
      const std::uint64_t rows = plan.problem().tile.m;
      here.whole = finished && finished->overflowed <= finished->unchecked &&
                   finished->unchecked <= rows * plan.problem().moments.count &&
                   finished->infinite <= rows &&
                   finished->variables.size() == variables_of(plan.problem(), tiles[i]);
      if (!here.whole) break;
      here.tiles.push_back({tiles[i], found->second->run, *finished});
    }
    all.push_back(std::move(here));
  }
  return all;
}

/// A super-tile is whole if it is whole on every rank. Collective.
void agree(const ranks::Session& session, std::vector<Whole>& all) {
  std::vector<char> mine;
  for (const Whole& one : all) mine.push_back(one.whole ? 1 : 0);
  const std::vector<char> ranks = session.gather(mine);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == 0) all[i % all.size()].whole = false;
  }
}

/// Copies tiles from part files to C and N. Checksums and squares are computed from the copied
/// elements, as in TileDrain.
class Copy {
 public:
  Copy(const Problem& problem, const CheckpointReader& reader, std::span<const io::RangeWriter> to,
       unsigned threads, ranks::Heartbeat& heartbeat)
      : problem_(problem), reader_(reader), to_(to), threads_(threads), heartbeat_(heartbeat) {}

  /// False if the tile cannot be read, or does not match its checksums. Sets its squares.
  bool tile(Found& found) const {
    FinishedTile& of = found.finished;
    if (!matrix(0, found, of.weighted, of.squares)) return false;
    return to_.size() == 1 || matrix(1, found, of.counts.weighted, of.counts_squares);
  }

 private:
  bool matrix(std::size_t number, const Found& found, std::uint64_t checksum,
              double& squares) const {
    const Range rows = elements_of({found.at.row, 1}, problem_.tile.m, problem_.m);
    const Range columns = elements_of({found.at.column, 1}, problem_.tile.n, problem_.n);
    const bool mirrored = problem_.symmetric && found.at.row != found.at.column;
    std::uint64_t weighted = 0;
    if (!rectangle(number, found.run, rows, columns, weighted, squares)) return false;
    double squares_of_mirror = 0;
    if (mirrored && !rectangle(number, found.run, columns, rows, weighted, squares_of_mirror)) {
      return false;
    }
    squares *= mirrored ? 2 : 1;
    return weighted == checksum;
  }

  bool rectangle(std::size_t number, std::size_t run, Range rows, Range columns,
                 std::uint64_t& weighted, double& squares) const {
    const ElementType type = to_[number].type();
    const std::size_t row_bytes = columns.count * size_of(type);
    const std::uint64_t step = std::max<std::uint64_t>(1, piece_bytes / row_bytes);
    std::vector<double> row_squares(rows.count);
    std::atomic<std::uint64_t> sum = 0;
    std::atomic<bool> good = true;
    parallel_for(ceil_div(rows.count, step), threads_, [&](std::uint64_t at) {
      const Range some = intersection(rows, {rows.first + at * step, step});
      std::vector<std::byte> piece(some.count * row_bytes);
      if (!good || !reader_.read(run, number, some, columns, piece.data(), row_bytes)) {
        good = false;
        return;
      }
      for (std::uint64_t i = 0; i < some.count; ++i) {
        const std::byte* const row = piece.data() + i * row_bytes;
        const auto sums = gemm::row_checksums(type, row, columns.count, columns.count);
        sum += sums.matrix_checksum((some.first + i) * problem_.n + columns.first);
        const bool skips_nan = std::isnan(sums.squares) && problem_.may_lack_elements;
        row_squares[some.first + i - rows.first] =
            skips_nan ? squares_of_numbers(type, row, columns.count) : sums.squares;
      }
      to_[number].write(some, columns, piece.data(), row_bytes);
      heartbeat_.move();
    });
    weighted += sum;
    squares = std::accumulate(row_squares.begin(), row_squares.end(), 0.0);
    return good;
  }

  static constexpr std::size_t piece_bytes = std::size_t{4} << 20;

  const Problem& problem_;
  const CheckpointReader& reader_;
  std::span<const io::RangeWriter> to_;
  unsigned threads_;
  ranks::Heartbeat& heartbeat_;
};

}  // namespace

std::vector<FinishedTile> take_over(const ranks::Session& session, const io::Checkpoint& earlier,
                                    std::span<const io::RangeWriter> to, io::Journal& journal,
                                    Log& log, unsigned threads, Plan& plan) {
  const CheckpointReader reader(earlier, plan.problem().n, plan.shape.c_element);
  std::vector<Whole> all = find(plan, earlier);
  agree(session, all);
  std::uint64_t kept = 0;
  for (const Whole& one : all) kept += one.whole ? one.tiles.size() : 0;
  kept = session.sum(kept);
  if (session.rank() == 0) {
    const std::string words =
        "resuming from a checkpoint: " + kept_tiles(kept, earlier.pieces.size());
    if (kept < earlier.pieces.size()) {
      log.warn(words);
    } else {
      log.info(words);
    }
  }
  session.collectively([&] {
    for (Whole& one : all) {
      if (to.empty() || !one.whole) continue;
      const Copy copy(plan.problem(), reader, to, threads, session.heartbeat());
      one.whole = std::ranges::all_of(one.tiles, [&](Found& found) { return copy.tile(found); });
    }
  });
  agree(session, all);
  std::vector<FinishedTile> taken;
  std::vector<std::uint64_t> left;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].whole) {
      left.push_back(plan.schedule.passes[i]);
      continue;
    }
    for (const Found& found : all[i].tiles) {
      taken.push_back(found.finished);
      journal.add(piece_of(taken.back(), std::nullopt));
    }
  }
  plan.schedule.passes = std::move(left);
  const std::uint64_t right = session.sum(taken.size());
  if (right < kept && session.rank() == 0) {
    log.warn(fmt::format(
        "{} not match the stored checksum and will be computed again, with the rest of the "
        "super-tile: check the disk",
        kept - right == 1 ? "1 finished tile does"
                          : fmt::format("{} finished tiles do", kept - right)));
  }
  return taken;
}

std::string kept_tiles(std::uint64_t kept, std::uint64_t finished) {
  if (kept == finished) return fmt::format("{0} of {0} finished tiles are kept", finished);
  return fmt::format(
      "{} of {} finished tiles are kept, and {} are computed again, because their super-tiles are "
      "incomplete with this number of ranks and this --pipeline.gpu-memory: to keep more, start as "
      "many ranks as before, with as much memory",
      kept, finished, finished - kept);
}

io::JournalExtent journal_extent(const Plan& plan, std::uint64_t tiles) {
  const Problem& problem = plan.problem();
  const std::uint64_t variables =
      problem.describes_variables() ? std::min(problem.m, tiles * problem.tile.m) : 0;
  return {.pieces = tiles,
          .groups = plan.super_tiles(),
          .record = tile_record,
          .numbers = variable_record * variables,
          .matrices = problem.moments.results()};
}

std::uint64_t count_kept(const Plan& plan, const io::Checkpoint& earlier) {
  std::vector<bool> whole(plan.super_tiles(), true);
  std::vector<std::uint64_t> tiles(plan.super_tiles());
  for (std::uint64_t rank = 0; rank < plan.problem().ranks.count; ++rank) {
    const std::vector<Whole> of_rank = find(plan_of_rank(plan, rank), earlier);
    for (std::size_t i = 0; i < of_rank.size(); ++i) {
      whole[i] = whole[i] && of_rank[i].whole;
      tiles[i] += of_rank[i].tiles.size();
    }
  }
  std::uint64_t kept = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) kept += whole[i] ? tiles[i] : 0;
  return kept;
}

CheckpointReader::CheckpointReader(const io::Checkpoint& checkpoint, std::uint64_t columns,
                                   std::uint64_t element)
    : checkpoint_(checkpoint), columns_(columns), element_(element) {
  for (const auto& run : checkpoint.runs) {
    const io::TemporaryFile part{
        .path = run.part, .uuid = {}, .kind = io::TemporaryFile::Kind::part};
    parts_.push_back(run.offsets.empty() ? Descriptor()
                                         : io::open_temporary_file(part, io::Locking::leave).file);
  }
}

bool CheckpointReader::read(std::size_t run, std::size_t matrix, Range rows, Range columns,
                            std::byte* out, std::size_t pitch) const {
  const Descriptor& part = parts_.at(run);
  const std::vector<std::uint64_t>& offsets = checkpoint_.runs[run].offsets;
  if (!part.valid() || matrix >= offsets.size()) return false;
  const std::uint64_t offset = offsets[matrix];
  expect(columns.first <= columns_ && columns.count <= columns_ - columns.first,
         "a rectangle ends inside its matrix");
  const std::uint64_t row_bytes = columns.count * element_;
  const std::uint64_t end = saturating_product(rows.end(), columns_ * element_);
  if (offset > INT64_MAX || end > INT64_MAX - offset) return false;  // beyond any file
  for (std::uint64_t row = 0; row < rows.count; ++row) {
    const std::uint64_t element = (rows.first + row) * columns_ + columns.first;
    const std::int64_t got =
        part.read_at(offset + element * element_, out + row * pitch, row_bytes);
    if (got != static_cast<std::int64_t>(row_bytes)) return false;
  }
  return true;
}

}  // namespace shardstream::workloads::product
