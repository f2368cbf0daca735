#include "workloads/product/plan/description.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/text.hpp"
#include "core/units.hpp"

namespace shardstream::workloads::product {
namespace {

std::string passes(std::uint64_t count, std::string_view of) {
  return fmt::format("{} {} pass{}", count, of, count == 1 ? "" : "es");
}

std::string tiles(std::string_view of, Range range) {
  if (range.count == 0) return fmt::format("no {} of tiles", of);
  return fmt::format("{} of tiles {} to {}", of, range.first, range.end() - 1);
}

/// "rows: 12.1 s; grid 2 x 4: 11.8 s; split-k: not possible (...)".
std::string alternatives(const Plan& plan) {
  std::string text;
  for (const Alternative& each : plan.decision.alternatives) {
    text +=
        fmt::format("{}{}: {}", text.empty() ? "" : "; ", words_of(each.decomposition, each.box),
                    each.why_not.empty() ? format_duration(each.seconds)
                                         : fmt::format("not possible ({})", each.why_not));
  }
  return text;
}

std::string of_the_rank(const Plan& plan) {
  std::string text = fmt::format("rank {} of {}: ", plan.part.rank, plan.problem().ranks.count);
  if (plan.part.idle) return text + "idle";
  text += tiles("rows", plan.part.rows);
  if (plan.shape.box.columns > 1) text += ", " + tiles("columns", plan.part.columns);
  if (plan.shape.box.depth > 1) {
    text +=
        fmt::format(", blocks of K {} to {}", plan.part.blocks.first, plan.part.blocks.end() - 1);
  }
  return text;
}

/// The decomposition, with the number of idle ranks and the parts that the ranks share.
std::string of_decomposition(const Plan& plan) {
  std::string text =
      fmt::format("decomposition: {}, {}", words_of(plan.decision.decomposition, plan.shape.box),
                  plan.decision.why);
  if (const std::uint64_t idle = plan.problem().ranks.count - plan.shape.box.ranks(); idle > 0) {
    text +=
        fmt::format("; {} of {} ranks idle: {} x {} tiles and {} segment{} of K are shared", idle,
                    plan.problem().ranks.count, plan.shape.tile_rows, plan.shape.tile_columns,
                    plan.shape.segments, plan.shape.segments == 1 ? "" : "s");
  }
  return text;
}

/// The sizes of the blocks of K: "1824, 1824, 3648, 7 x 7296, 7168".
std::string sizes_of_blocks(const Plan& plan) {
  const auto size_of = [&](std::uint64_t block) {
    return intersection(plan.shape.depth({block, 1}), {0, plan.problem().k}).count;
  };
  const std::uint64_t size = plan.problem().tile.k, last = size_of(plan.shape.blocks - 1);
  std::vector<std::string> sizes;
  std::uint64_t first = 0;  // block of the usual size; shallower ones come before it
  for (; first + 1 < plan.shape.blocks && size_of(first) < size; ++first) {
    sizes.push_back(std::to_string(size_of(first)));
  }
  const std::uint64_t whole = plan.shape.blocks - first - (last < size ? 1 : 0);
  if (whole > 1) sizes.push_back(fmt::format("{} x {}", whole, size));
  if (whole == 1) sizes.push_back(std::to_string(size));
  if (last < size) sizes.push_back(std::to_string(last));
  return join(sizes, ", ");
}

std::string of_k(const Plan& plan) {
  std::string text = fmt::format("K: {}, in {}: {}", plan.problem().k,
                                 counted(plan.shape.blocks, "block"), sizes_of_blocks(plan));
  const gemm::Tile& tile = plan.problem().tile;
  if (tile.fold > 1) {
    text += fmt::format("; {} samples are multiplied as one row of {}", tile.fold, tile.folded_n());
  }
  if (tile.lanes > 1) {
    text += fmt::format("; each is cut into {} lanes that are multiplied side by side", tile.lanes);
  }
  if (plan.shape.segments > 1) {
    text += fmt::format("; {} segments, whose sums are folded by a tree", plan.shape.segments);
  }
  return text;
}

/// The batches, with the uploads of the largest one.
std::string of_batches(const Plan& plan) {
  const Problem& problem = plan.problem();
  const Shape& shape = plan.shape;
  std::uint64_t a_rows = 0, columns = 0;
  for (std::uint64_t number = 0; number < plan.super_tiles(); ++number) {
    const SuperTile tiles = plan.super_tile(number);
    if (!shape.a_from_b(tiles)) a_rows = std::max(a_rows, tiles.rows.count);
    columns = std::max(columns, tiles.columns.count);
  }
  const std::uint64_t of_readers = batches_of_readers(shape, plan.schedule.sizes);
  return fmt::format(
      "batches: {}, {} in device memory at a time{}; each uploads up to {} of A and {} of B; the "
      "last {} of each super-tile {} computed tile by tile",
      plan.batches(), plan.schedule.ring_batches,
      of_readers > 0 ? fmt::format(" (readers fill {})", counted(of_readers, "batch")) : "",
      format_size(upload_bytes(shape, {.uploaded_rows = a_rows}, problem.tile.k)),
      format_size(upload_bytes(shape, {.columns = columns}, problem.tile.k)),
      plan.schedule.window == 1 ? "batch" : fmt::format("{} batches", plan.schedule.window),
      plan.schedule.window == 1 ? "is" : "are");
}

std::string of_memory(const Plan& plan) {
  const Buffers& buffers = plan.buffers;
  const std::uint64_t exchange = saturating_sum({buffers.send, buffers.receive});
  return fmt::format(
      "device memory: {} of {}: accumulators {}, batches {}, verification {}{}, other {}{}",
      format_size(plan.device_bytes), format_size(plan.problem().ranks.device_memory),
      format_size(saturating_sum({buffers.accumulators, buffers.lanes})),
      format_size(saturating_product({plan.schedule.ring_batches, batch_bytes(buffers.batch)})),
      format_size(check_bytes(buffers.check)),
      exchange > 0 ? fmt::format(", exchange {}", format_size(exchange)) : "",
      format_size(saturating_sum(
          {plan.problem().ranks.other_bytes, buffers.kept_b, buffers.c_tile, buffers.mirrors})),
      plan.shape.box.ranks() < plan.problem().ranks.count && !plan.part.idle
          ? fmt::format("; an idle rank's: {}", format_size(plan.problem().ranks.other_bytes))
          : "");
}

/// The data that the rank receives from other ranks; empty with one rank.
std::string of_messages(const Plan& plan) {
  struct Kind {
    std::uint64_t bytes;
    std::string_view of;
  };
  std::string text;
  for (const Kind& kind : std::array<Kind, 3>{{{plan.traffic.a_gathered, "of A in all-gathers"},
                                               {plan.traffic.b_gathered, "of B in all-gathers"},
                                               {plan.traffic.exchanged, "of partial sums"}}}) {
    if (kind.bytes == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_size(kind.bytes), kind.of);
  }
  return text;
}

std::string of_time(const Plan& plan) {
  const std::string_view bound = plan.prediction.bound_by();
  std::vector<std::string> parts;
  for (const auto& [name, seconds] : plan.prediction.limits()) {
    if (name == "calls" && name != bound) continue;  // hardly of interest
    parts.push_back(fmt::format("{} {}", name, format_duration(seconds)));
  }
  return fmt::format("predicted: {}, bound by {} ({})", format_duration(plan.prediction.seconds),
                     bound, fmt::join(parts, ", "));
}

}  // namespace

std::vector<std::string> answer(const Plan& plan) {
  return {of_time(plan), of_memory(plan)};
}

std::vector<std::string> describe(const Plan& plan) {
  const Problem& problem = plan.problem();
  std::vector<std::string> lines{
      fmt::format("C: {} x {} in {}, {} x {} tiles of {} x {}{}", problem.m, problem.n,
                  word_of(problem.precision), plan.shape.tile_rows, plan.shape.tile_columns,
                  problem.tile.m, problem.tile.n,
                  problem.symmetric ? ", one of each mirrored pair is computed" : ""),
      of_k(plan), of_decomposition(plan)};
  if (plan.decision.alternatives.size() > 1) lines.push_back("considered: " + alternatives(plan));
  lines.push_back(of_the_rank(plan));
  lines.push_back(fmt::format("super-tiles: {}, of up to {} x {} tiles ({}, {})",
                              plan.super_tiles(), plan.schedule.sizes.rows,
                              plan.schedule.sizes.columns,
                              passes(plan.schedule.cut.row_passes, "row"),
                              passes(plan.schedule.cut.column_passes, "column")));
  if (plan.schedule.cut.keeps_b) lines.back() += "; B stays in device memory for all of them";
  if (!plan.part.idle) lines.push_back(of_batches(plan));
  if (plan.traffic.uploads > 0) {
    lines.push_back(fmt::format(
        "uploads of rank {}: {}, {:.3f} x the minimum of {} for this memory", plan.part.rank,
        format_size(plan.traffic.uploads),
        static_cast<double>(plan.traffic.uploads) / static_cast<double>(plan.traffic.min_uploads),
        format_size(plan.traffic.min_uploads)));
  }
  if (const std::string received = of_messages(plan); !received.empty()) {
    lines.push_back("from other ranks: " + received);
  }
  return lines;
}

std::string words_of_parts(const gemm::Tile& tile) {
  return fmt::format("{}{}", tile.lanes > 1 ? fmt::format(" in {} lanes", tile.lanes) : "",
                     tile.fold > 1 ? fmt::format(", folded {} times", tile.fold) : "") +
         (tile.moduli > 0 ? fmt::format(", modulo {} numbers", tile.moduli) : "");
}

}  // namespace shardstream::workloads::product
