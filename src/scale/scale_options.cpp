#include "scale/scale_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "study_folder/names.hpp"

namespace shardstream::scale {
namespace {

const std::string replicates_range = fmt::format("1..{}", study_folder::max_replicates);

const std::array rows = {
    OptionRow{"scale.ranks", OptionKind::text, "", "",
              "The numbers of ranks to measure, such as 1,2,4,8."},
    OptionRow{"scale.mode", OptionKind::choice, "strong", "strong|weak",
              "strong keeps the total work constant; weak keeps the work per rank constant."},
    OptionRow{
        "scale.replicates", OptionKind::count, "3", replicates_range,
        "Number of launches at each number of ranks; confidence intervals need at least two."},
    OptionRow{
        "scale.launcher", OptionKind::text, "auto", "",
        "The command that starts the ranks. {ranks}, {nodes}, {per-node} and {cpus} in it are "
        "replaced by numbers. Quotes keep words together; no shell reads the command. auto is srun "
        "inside a Slurm job, else mpirun."},
    OptionRow{
        "scale.ranks-per-node", OptionKind::count, "auto", "auto|1..",
        "Ranks on each node, for {per-node}, {nodes} and predictions. auto is the number of tasks "
        "per node under Slurm. Elsewhere mpirun decides; before the calibration run, predictions "
        "assume the ranks per node of --rates, else one node."},
    OptionRow{"scale.oversubscribe", OptionKind::flag, "false", "",
              "Whether mpirun may start more ranks than there are cores; for tests, not for "
              "measurements."},
    OptionRow{"scale.timeout", OptionKind::duration, "auto", "auto|1s..",
              "The maximum time of one launch; auto is ten times the predicted time (with "
              "measure.repeat auto including measure.max-time) plus five minutes."},
    OptionRow{
        "scale.cache", OptionKind::choice, "warm", "warm|cold",
        "warm reads the input files into the page cache before each launch; cold drops them from "
        "it."},
    OptionRow{
        "scale.grow", OptionKind::text, "auto", "",
        "The dimension that weak scaling increases; auto is the workload's default. For a "
        "product of two matrices: m, n, k, or sizes (all three, the default). Prefer m: ranks "
        "then have equally many tiles."},
    OptionRow{"scale.seed", OptionKind::count, "1", "",
              "The seed of the random order of the launches."},
    OptionRow{"scale.timeline", OptionKind::flag, "true", "",
              "Whether each size gets one more run that records a timeline for the figures: one "
              "launch with a warm-up and one repetition, whose time is not part of the "
              "statistics."},
};

}  // namespace

std::span<const OptionRow> scale_options() {
  return rows;
}

std::vector<std::uint64_t> parse_ranks(std::string_view text) {
  constexpr std::uint64_t max = 1 << 24;
  std::vector<std::uint64_t> ranks;
  if (trim(text).empty()) {
    throw UsageError(
        "scale.ranks is empty: name the numbers of ranks to measure (--scale.ranks 1,2,4)");
  }
  for (const std::string_view word : split(text, ',')) {
    std::uint64_t count = 0;
    try {
      count = parse_count(trim(word));
    } catch (const UsageError& error) {
      throw UsageError(fmt::format(
          "scale.ranks: {}; scale.ranks is a list with commas, for example 1,2,3,4", error.what()));
    }
    if (count == 0 || count > max) {
      throw UsageError(
          fmt::format("scale.ranks: {} is not a number of ranks: give 1 to {}", word, max));
    }
    ranks.push_back(count);
  }
  std::ranges::sort(ranks);
  const auto twice = std::ranges::adjacent_find(ranks);
  if (twice != ranks.end()) {
    throw UsageError(fmt::format("scale.ranks: {} is listed twice: leave one out", *twice));
  }
  return ranks;
}

StudyRequest request_of(const Options& options) {
  StudyRequest request{.ranks = parse_ranks(options.text("scale.ranks")),
                       .weak = options.text("scale.mode") == "weak",
                       .replicates = options.count("scale.replicates"),
                       .launcher = options.text("scale.launcher"),
                       .oversubscribe = options.flag("scale.oversubscribe"),
                       .cold = options.text("scale.cache") == "cold",
                       .grow = options.text("scale.grow"),
                       .seed = options.count("scale.seed"),
                       .timeline = options.flag("scale.timeline")};
  if (!options.is_auto("scale.ranks-per-node")) {
    request.ranks_per_node = options.count("scale.ranks-per-node");
  }
  if (!options.is_auto("scale.timeout")) request.timeout = options.seconds("scale.timeout");
  return request;
}

}  // namespace shardstream::scale
