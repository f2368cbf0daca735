// The buffer rings of a run feed a kernel from each place where pipeline.mode can keep the data.
// The kernel adds up the data, so the sum is right only if every byte has arrived. Two ceilings are
// measured on the same memory: copies without a kernel, and a kernel that only reads.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "core/error.hpp"
#include "core/units.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/pipeline/fed_sum.hpp"
#include "io/source/generator_source.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::experiments::feeds {

constexpr OptionRow options[] = {
    {"feed.size", OptionKind::size, "4GiB", "1MiB..",
     "Data of each rank. The default with --quick is 1 GiB; on CPUs it is 512 MiB, with "
     "--quick 64 MiB. A default is halved until it fits in memory."},
};

Table feed(Bench& bench);

namespace {

/// A place where a run can keep its data.
struct DataLocation {
  const char* mode;  ///< the value of pipeline.mode
  const char* way;   ///< how the data gets from there to the kernel
  double expected;   ///< the minimum share of the ceiling on a GPU
};

constexpr std::array places = {
    DataLocation{"pinned", "copied in batches while the kernel runs", 0.95},
    DataLocation{"write-combined", "the same; the processor's caches do not hold the data", 0.95},
    DataLocation{"pageable", "threads copy it into pinned slots first", 0.85},
    DataLocation{"mapped", "the kernel reads it over the link", 0.85},
    DataLocation{"resident", "already on the device", 0.9},
};

/// The expected share of plain copies or, for data on the device, of plain reads.
double expected_rate(const MeasuredRow& row) {
  const auto* const place = std::ranges::find(places, row.text("data"), &DataLocation::mode);
  if (place == places.end()) return std::nan("");
  const bool is_resident = std::string_view(place->mode) == "resident";
  return place->expected *
         row.measured({{"data", is_resident ? "plain reads" : "plain copies"}}, {"at_once"});
}

}  // namespace

extern const Experiment about_feed = {
    .name = "feed",
    .group = "pipeline",
    .summary = "The pipeline of a run feeds a kernel at the rate of the link or of memory.",
    .explanation =
        {
            .question =
                "Does the pipeline of a run feed a kernel as fast as plain copies and plain reads "
                "do?",
            .varies =
                "A run keeps its data in one of several places (pipeline.mode): pinned memory, "
                "write-combined memory, pageable memory, pinned memory that the kernel reads over "
                "the link (mapped), or device memory (resident). From each place, the data passes "
                "through the same buffer rings as in a run, in batches of 64 MiB, while a kernel "
                "adds up the previous batch. The time is that of a whole pass, by the host's "
                "clock, from its start until the sum is known. Two ceilings are measured as well: "
                "plain copies from pinned memory, and a plain kernel that reads device memory. "
                "With several ranks, each rank measures alone, and then all measure at once. The "
                "rate is that of each rank. The experiment file-feed feeds data from files.",
            .expectation =
                "Expect 0.95 of plain copies from pinned and write-combined memory, 0.85 from "
                "pageable and mapped memory, and 0.9 of plain reads from device memory. If the "
                "rate is lower while all ranks measure at once, the ranks share a link or the "
                "memory of the host; plain copies become slower too.",
            .pitfalls =
                "These expectations hold for GPUs; on CPUs, all places are ordinary memory. The "
                "sum must be that of the host.",
        },
    .read_on = {{Guide::best_practices, "Asynchronous and Overlapping Transfers with Computation"},
                {Guide::project, "src/pipeline/README.md"}},
    .share =
        "of the rate of plain copies; for `resident`, and on CPUs for `mapped`, of the rate of "
        "plain reads",
    .options = options,
    .expected = expected_rate,
    .exercise = {.task = "Predict the rate in GB/s of pinned, pageable, mapped and resident data, "
                         "if plain copies reach 52 GB/s and plain reads 4500 GB/s.",
                 .rows = {{{"data", "pinned"}},
                          {{"data", "pageable"}},
                          {{"data", "mapped"}},
                          {{"data", "resident"}}}},
    .figure = {.look = Look::bars, .x = "data", .y = "rate", .log_y = true},
    .turns = Turns::both,
    .run = feed,
    .run_host = feed,
};

namespace {

/// feed.size, or the default of the backend. It fits in pinned memory and in device memory.
std::uint64_t bytes_to_feed(Bench& bench) {
  constexpr std::uint64_t MiB = std::uint64_t{1} << 20, granule = 16;
  const std::uint64_t usual = bench.resources().backend == Backend::host
                                  ? (bench.is_quick() ? 64 : 512) * MiB
                                  : (bench.is_quick() ? 1024 : 4096) * MiB;
  return bench.bytes("feed.size", {.of_device = 0.4, .of_host = 0.33}, usual) / granule * granule;
}

std::string remark(const DataLocation& place, double share, Backend backend) {
  if (is_above_ceiling(share)) return above_ceiling;
  if (backend == Backend::host) return place.way;
  return fmt::format("{}: {}",
                     share >= place.expected
                         ? "as expected"
                         : fmt::format("less than expected, {}", place.expected),
                     place.way);
}

}  // namespace

Table feed(Bench& bench) {
  const std::uint64_t bytes = bytes_to_feed(bench);
  const Backend backend = bench.resources().backend;
  const io::GeneratorSource source(Generator::uniform, ElementType::f32, {bytes / sizeof(float)},
                                   static_cast<std::uint64_t>(bench.rank()) + 1);
  const Range all{0, source.count()};
  Measurements rows({{"data", ColumnType::text},
                     {"at_once", ColumnType::integer, "ranks"},
                     {"bytes", ColumnType::integer, "B"}},
                    {"rate", ColumnType::real, "GB/s"});
  const auto add = [&](const char* name, const Timing& timing, double ceiling, const auto& words) {
    const Measured rate = timing.rate(static_cast<double>(bytes));
    const double share = rate.value / ceiling;
    rows.add({name, std::int64_t{bench.at_once()}, static_cast<std::int64_t>(bytes)}, rate, share,
             words(share));
    return rate.value;
  };
  const auto is_a_ceiling = [](double) { return std::string("a ceiling"); };
  const double copies = add("plain copies", plain_copies(bench, bytes), std::nan(""), is_a_ceiling);
  const double reads = add("plain reads", plain_reads(bench, bytes), std::nan(""), is_a_ceiling);

  const std::uint64_t expected = reference_sum(source, all, bench.resources().threads);
  for (const DataLocation& place : places) {
    FedSum fed(bench, source, all, sizes_for(bench, place.mode, source, all));
    const auto pass = [&] { fed.run(); };
    const auto check = [&] {
      fed.settle();
      bench.verify(fed.sum() == expected, fmt::format("the sum of data in {} memory", place.mode));
    };
    const Timing timing = time_passes(bench, pass, check);
    const std::string_view mode = place.mode;
    const bool is_copied = mode != "resident" && !(mode == "mapped" && backend == Backend::host);
    add(place.mode, timing, is_copied ? copies : reads,
        [&](double share) { return remark(place, share, backend); });
  }
  return std::move(rows).table();
}

}  // namespace shardstream::experiments::feeds
