#include "report/roofline_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/text.hpp"
#include "report/experiments.hpp"
#include "report/run_file.hpp"

namespace shardstream::report {
namespace {

constexpr double not_known = std::numeric_limits<double>::quiet_NaN();
constexpr double giga = 1e9;

bool has_column(const Table& table, const std::string& name, ColumnType type) {
  const auto found = std::ranges::find(table.columns(), name, &Column::name);
  return found != table.columns().end() && found->type == type;
}

bool has_roofs(const ExperimentResult& experiment) {
  return experiment.is_measured() && experiment.look == "roofline" &&
         has_column(experiment.table, "part", ColumnType::text) &&
         has_column(experiment.table, "name", ColumnType::text) &&
         has_column(experiment.table, "traffic", ColumnType::real);
}

void raise(std::vector<Roof>& roofs, const std::string& name, double rate) {
  if (!(rate > 0) || !std::isfinite(rate)) return;
  const auto known = std::ranges::find(roofs, name, &Roof::name);
  if (known == roofs.end()) {
    roofs.push_back({name, rate});
  } else {
    known->rate = std::max(known->rate, rate);
  }
}

Roofs roofs_of(const ExperimentResult& experiment) {
  Roofs roofs;
  for (const Row& row : experiment.table.rows()) {
    if (row.get<std::int64_t>("rank") != 0) continue;
    const auto& part = row.get<std::string>("part");
    const auto& name = row.get<std::string>("name");
    if (part == memory_roof) raise(roofs.memory, name, row.get<double>("traffic"));
    if (part == link_roof) raise(roofs.links, name, row.get<double>("traffic"));
    if (part == arithmetic_roof) raise(roofs.arithmetic, name, row.get<double>(experiment.y));
    if (part == shared_roof) {
      roofs.shared_memory = std::max(roofs.shared_memory, row.get<double>("traffic"));
    }
    if (part == issue_roof) roofs.issue = std::max(roofs.issue, row.get<double>(experiment.y));
  }
  std::ranges::sort(roofs.memory, {}, &Roof::rate);
  return roofs;
}

/// A rate over a roof; NaN if the roof was not measured or the rate is unknown.
double share_of(double rate, double roof) {
  return roof > 0 ? rate / roof : not_known;
}

/// `placed` has its name, its intensity and its rates. Finds the roofs of its bytes and operations.
/// `link`: the bytes cross the host link; null: they do not. `distinct` as in memory_of().
Placed below(const Roofs& roofs, Placed placed, const Roof* link, double distinct = not_known) {
  const ServedBy served = link != nullptr ? ServedBy{link, placed.traffic / link->rate}
                                          : memory_of(roofs, placed.traffic, distinct);
  placed.memory = served.memory->name;
  placed.shares.memory = served.share;
  const auto peak = std::ranges::find(roofs.arithmetic, placed.arithmetic, &Roof::name);
  if (placed.rate == 0) {
    placed.arithmetic.clear();
    placed.shares.compute = 0;
  } else if (peak != roofs.arithmetic.end()) {
    placed.shares.compute = placed.rate / peak->rate;
  } else {
    placed.arithmetic.clear();
  }
  return placed;
}

/// The texts and numbers that name a row in the figure of its experiment: "device, set 4096 B".
std::string name_of(const ExperimentResult& experiment, const Row& row) {
  std::vector<std::string> parts, used;
  for (const std::string& name : {experiment.panel, experiment.series, experiment.x}) {
    if (name.empty() || std::ranges::find(used, name) != used.end()) continue;
    used.push_back(name);
    const auto column = std::ranges::find(experiment.table.columns(), name, &Column::name);
    std::string text = shardstream::to_text(row[name]);
    if (column->type != ColumnType::text) {
      text = fmt::format("{} {}{}{}", name, text, column->unit.empty() ? "" : " ", column->unit);
    }
    parts.push_back(std::move(text));
  }
  return join(parts, ", ");
}

/// The rows of rank 0. Returns the number of rows that cannot be placed.
std::size_t place_rows(const ExperimentResult& experiment, Roofline& roofline) {
  const bool is_own = has_roofs(experiment);
  std::size_t left_out = 0;
  for (const Row& row : experiment.table.rows()) {
    if (row.get<std::int64_t>("rank") != 0) continue;
    const Roof* link = nullptr;
    if (is_own) {
      const auto& part = row.get<std::string>("part");
      if (part != device_kernel && part != transfer) continue;
      if (part == transfer) {
        if (roofline.roofs.links.empty()) continue;
        link = &roofline.roofs.links.front();
      }
    }
    const double gigas = row.get<double>("operations"), megabytes = row.get<double>("bytes"),
                 milliseconds = row.get<double>("duration");
    if (!(milliseconds > 0) || !std::isfinite(milliseconds)) {
      ++left_out;
      continue;
    }
    const auto rate = [&](const char* column) {  // in 10^9 per second; files of earlier versions
      return has_column(experiment.table, column, ColumnType::real)  // do not have these columns
                 ? row.get<double>(column) / milliseconds
                 : not_known;
    };
    Placed placed = below(roofline.roofs,
                          {.source = experiment.name,
                           .name = is_own ? row.get<std::string>("name") : name_of(experiment, row),
                           .intensity = gigas * 1e3 / megabytes,
                           .rate = gigas * 1e3 / milliseconds,
                           .traffic = megabytes / milliseconds,
                           .arithmetic = row.get<std::string>("arithmetic"),
                           .in_turn = link != nullptr},
                          link, rate("distinct"));
    placed.shares.shared = share_of(rate("shared_bytes"), roofline.roofs.shared_memory);
    placed.shares.issue = share_of(rate("instructions"), roofline.roofs.issue);
    roofline.placed.push_back(std::move(placed));
  }
  return left_out;
}

void place_tables(std::span<const ExperimentResult> experiments, Roofline& roofline) {
  std::vector<std::string> old;
  std::size_t left_out = 0;
  for (const ExperimentResult& each : experiments) {
    if (!each.is_measured() || !has_column(each.table, "operations", ColumnType::real) ||
        !has_column(each.table, "bytes", ColumnType::real)) {
      continue;
    }
    if (has_column(each.table, "duration", ColumnType::real) &&
        has_column(each.table, "arithmetic", ColumnType::text)) {
      left_out += place_rows(each, roofline);
    } else {
      old.push_back(each.name);
    }
  }
  if (left_out > 0) {
    roofline.notes.push_back(
        fmt::format("{} of kernels cannot be placed: the time of a call was not measured, or the "
                    "bytes cross the host link.",
                    counted(left_out, "row")));
  }
  if (!old.empty()) {
    roofline.notes.push_back(
        fmt::format("The tables of an earlier version have no times to place kernels by: {}.",
                    join(old, ", ")));
  }
}

/// The operations of a repetition: those of products, or else one for each streamed element.
double operations_of(const RunFile& run) {
  if (run.work_unit == "Tflop") return run.work * 1e12;
  const std::string type = run.options.resolved_text("input.type");
  if (type.size() < 2) return not_known;
  return run.streamed / (std::strtod(type.c_str() + 1, nullptr) / 8);
}

std::string arithmetic_of_run(const RunFile& run) {
  if (run.work_unit == "Tflop") {
    return std::string(arithmetic_of(run.options.resolved_text("product.precision")));
  }
  const std::string type = run.options.resolved_text("input.type");
  return type == "f32" ? "fp32" : type == "f64" ? "fp64" : "";
}

/// "p1-r1.h5, 1 rank (its own limit: link_up, 0.93)": runs have further limits, such as readers.
std::string name_of(const RunFile& run) {
  const std::string bound = run.text("bound_by");
  const std::string own =
      bound.empty() ? ""
                    : fmt::format(" (its own limit: {}, {:.2f})", bound, run.number("bound_share"));
  return fmt::format("{}, {}{}", run.path.filename().string(), counted(run.size.ranks, "rank"),
                     own);
}

/// Returns the reason if the run cannot be placed, else "".
std::string place_run(const RunFile& run, const std::string& device, Roofline& roofline) {
  if (run.device != device) return fmt::format("it ran on {}", run.device);
  const result::Ceiling* const way = way_of(run.ceilings);
  const double gpus = static_cast<double>(run.size.gpus > 0 ? run.size.gpus : run.size.ranks);
  const double operations = operations_of(run) / gpus, bytes = run.streamed / gpus;
  if (way == nullptr || !(bytes > 0) || !(operations > 0) || !std::isfinite(operations)) {
    return "its file has no operations or no bytes";
  }
  const Roof* link = nullptr;
  if (way->name == "link_up") {
    if (roofline.roofs.links.empty()) return "the host link has no roof";
    link = &roofline.roofs.links.front();
  }
  roofline.placed.push_back(below(roofline.roofs,
                                  {.source = run.workload,
                                   .name = name_of(run),
                                   .intensity = operations / bytes,
                                   .rate = operations / run.timing.median / giga,
                                   .traffic = bytes / run.timing.median / giga,
                                   .arithmetic = arithmetic_of_run(run),
                                   .is_run = true},
                                  link));
  return {};
}

}  // namespace

ServedBy memory_of(const Roofs& roofs, double traffic, double distinct) {
  expect(!roofs.memory.empty(), "there are roofs of memory");
  constexpr double tolerance = 0.9;
  const bool is_divided = std::isfinite(distinct) && roofs.memory.size() > 1;
  const auto first = roofs.memory.begin() + (is_divided ? 1 : 0);  // the slowest is device memory
  const auto fits = std::find_if(first, roofs.memory.end(), [&](const Roof& roof) {
    return roof.rate >= tolerance * traffic;
  });
  const Roof& level = fits == roofs.memory.end() ? roofs.memory.back() : *fits;
  const ServedBy served{&level, traffic / level.rate};
  if (!is_divided) return served;
  const Roof& device = roofs.memory.front();
  const double share = distinct / device.rate;
  return share >= served.share ? ServedBy{&device, share} : served;
}

std::optional<Roofline> roofline_of(std::span<const ExperimentResult> experiments,
                                    const std::string& device,
                                    std::span<const RunFile* const> runs) {
  const auto measured = std::ranges::find_if(experiments, has_roofs);
  if (measured == experiments.end()) return {};
  Roofline roofline{.roofs = roofs_of(*measured)};
  if (roofline.roofs.memory.empty() || roofline.roofs.arithmetic.empty()) return {};
  place_tables(experiments, roofline);
  for (const RunFile* run : runs) {
    const std::string why_not = place_run(*run, device, roofline);
    if (!why_not.empty()) {
      roofline.notes.push_back(
          fmt::format("The run {} is not placed: {}.", run->path.filename().string(), why_not));
    }
  }
  return roofline;
}

Table to_table(const Roofline& roofline) {
  Table table("roofline", {{"source", ColumnType::text},
                           {"kernel", ColumnType::text},
                           {"intensity", ColumnType::real, "op/B"},
                           {"rate", ColumnType::real, "Gop/s"},
                           {"traffic", ColumnType::real, "GB/s"},
                           {"memory", ColumnType::text},
                           {"memory_share", ColumnType::real},
                           {"shared_share", ColumnType::real},
                           {"arithmetic", ColumnType::text},
                           {"compute_share", ColumnType::real},
                           {"issue_share", ColumnType::real},
                           {"limiter", ColumnType::text}});
  for (const Placed& each : roofline.placed) {
    table.add({each.source, each.name, each.intensity, each.rate, each.traffic, each.memory,
               each.shares.memory, each.shares.shared, each.arithmetic, each.shares.compute,
               each.shares.issue, std::string(word_of(each.limiter()))});
  }
  return table;
}

}  // namespace shardstream::report
