#include "report/page/sections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>

#include "core/job_environment.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "report/words.hpp"
#include "study_folder/names.hpp"

namespace shardstream::report::page {
namespace {

constexpr std::size_t max_lines = 12;  // of a list; the tables have all entries

std::string item(const std::string& text) {
  return fmt::format("<li>{}</li>\n", with_code(text));
}

/// The names of files with reasons; only the first ones if there are many.
void add_items(std::string& list, const std::vector<std::string>& texts) {
  for (std::size_t i = 0; i < texts.size() && i < max_lines; ++i) list += item(texts[i]);
  if (texts.size() > max_lines) list += item(std::string(trim(and_more(texts.size(), max_lines))));
}

std::vector<std::string> trouble_of(const StudyReport& study) {
  std::vector<std::string> texts;
  if (!study.contradiction.empty()) texts.push_back(fmt::format("FAILED: {}", study.contradiction));
  for (const ExcludedFile& file : study.excluded) {
    texts.push_back(fmt::format("Excluded: {}: {}", file.path.string(), file.reason));
  }
  for (const std::string& note : study.notes) texts.push_back(fmt::format("Note: {}", note));
  for (std::string& sentence : words_on_attempts(study)) texts.push_back(std::move(sentence));
  for (const std::string& launch : study.unfinished.missing) {
    texts.push_back(fmt::format("Missing: {}: the same scale command launches it", launch));
  }
  for (const study::Size& size : study.table.sizes) {
    if (size.noisier) {
      texts.push_back(fmt::format(
          "Scatter: the launches on {} differ by a standard deviation of {}, at least three "
          "times that of the other sizes; the intervals of this size use it",
          counted(size.ranks, "rank"), format_percent(std::sqrt(size.noise.variance))));
    }
  }
  for (const std::string& outlier : words_on_outliers(study)) {
    texts.push_back("Outlier: " + outlier);
  }
  if (study.drift && study.drift->significant) {
    texts.push_back(
        fmt::format("Drift: times changed by {} from the first launch to the last (p = {:.2g})",
                    format_change(study.drift->total), study.drift->p_value));
  }
  return texts;
}

std::vector<std::string> flagged_runs(const StudyReport& study) {
  std::vector<std::string> texts;
  const auto add = [&](std::size_t runs, const char* words) {
    if (runs == 0) return;
    texts.push_back(fmt::format("{} of {}: {}", runs, counted(study.runs.size(), "launch"), words));
  };
  add(study.throttled(),
      "throttled: a GPU lowered its clocks in timed repetitions, so that times depend on power and "
      "cooling; the table of launches marks them");
  add(study.unconverged(),
      "unconverged: the median was not within the requested precision; the table of launches marks "
      "them");
  add(study.partly_verified(),
      "the result could be verified only in part or not at all; the attribute verdict of /results "
      "says why");
  return texts;
}

/// The different values of a key in the details of all sizes.
std::string distinct(const DetailedStudy& detailed, const std::string& key) {
  std::set<std::string> values;
  for (const DetailedRun& each : detailed.medians) {
    const auto& provenance = each.details.provenance;
    const auto found = provenance.find(key);
    if (found != provenance.end() && !found->second.empty()) values.insert(found->second);
  }
  std::string text;
  for (const std::string& value : values) {
    if (!text.empty()) text += "; ";
    text += value;
  }
  return text;
}

std::string command_block(const std::string& text) {
  return fmt::format("<pre>{}</pre>\n", escape(text));
}

/// Without variables that do not describe the job, which older files have.
std::vector<std::string_view> matters(std::vector<std::string_view> lines) {
  std::erase_if(lines, [](std::string_view line) { return !describes_job(line); });
  return lines;
}

/// The environment variables of the job: those that are the same on all sizes, then the others.
std::string environment(const DetailedStudy& detailed) {
  std::map<std::string, std::size_t> sizes;  // number of sizes with this line
  const auto lines_of = [](const DetailedRun& each) {
    const auto found = each.details.provenance.find("environment");
    return found == each.details.provenance.end() ? std::vector<std::string_view>()
                                                  : matters(split(found->second, '\n'));
  };
  for (const DetailedRun& each : detailed.medians) {
    for (const std::string_view line : lines_of(each)) ++sizes[std::string(line)];
  }
  const auto join_lines = [&](const DetailedRun& each, bool are_common) {
    std::string text;
    for (const std::string_view line : lines_of(each)) {
      const bool is_common = sizes[std::string(line)] == detailed.medians.size();
      if (!line.empty() && is_common == are_common) text += fmt::format("{}\n", line);
    }
    return text;
  };
  std::string text = join_lines(detailed.medians.front(), true);
  for (const DetailedRun& each : detailed.medians) {
    const std::string own = join_lines(each, false);
    if (!own.empty())
      text += fmt::format("\n# on {}\n{}", counted(each.run->size.ranks, "rank"), own);
  }
  return text;
}

std::string folder_of(const StudyReport& study) {
  const auto parent = study.runs.front().path.parent_path();
  return parent.empty() ? "." : parent.string();
}

/// Commands that run a workload once on each size, into the folder `again`.
std::string launches_of_run(const StudyReport& study, const std::string& again) {
  std::string list = shell_line({"mkdir", "-p", again}) + '\n';
  for (const int ranks : ranks_of(study)) {
    const RunFile& run = *study.runs_on(ranks).front();
    const std::string launcher =
        ranks > 1 ? fmt::format("mpirun -np {} --bind-to none ", ranks) : "";
    // The last -o counts.
    list +=
        fmt::format("# on {}\n{}{} {}\n", counted(ranks, "rank"), launcher, run.provenance.command,
                    shell_line({"-o", again + "/" + run.path.filename().string()}));
  }
  return list;
}

/// Commands that launch the program of the study `ini` once on each size, into the folder `again`,
/// after the calibration run, which all launches need.
std::string launches_of_program(const StudyReport& study, const std::string& ini,
                                const std::string& again) {
  const auto launch = [&](std::string_view name) {
    return shell_line({"shardstream", "scale", ini, "--only", std::string(name), "-o", again});
  };
  std::string list =
      fmt::format("# the calibration run\n{}\n", launch(study_folder::calibration_label));
  for (const int ranks : ranks_of(study)) {
    const RunFile& run = *study.runs_on(ranks).front();
    list += fmt::format("# on {}\n{}\n", counted(ranks, "rank"),
                        launch(study_folder::launch_name(run.size.ranks, run.study.replicate)));
  }
  return list;
}

}  // namespace

std::string findings(const StudyReport& study) {
  std::string list;
  add_items(list, trouble_of(study));
  add_items(list, flagged_runs(study));
  if (list.empty())
    return "<p>Every launch is included: none was excluded, missing, failed or throttled.</p>\n";
  return fmt::format(
      "<div class=\"findings\"><b>Know before you trust the numbers</b>\n<ul>\n{}"
      "</ul></div>\n",
      list);
}

std::string methods(const StudyReport& study) {
  const RunFile& run = study.runs.front();
  const std::string warm_ups = run.options.text("measure.warmup");
  const std::string warm_up = warm_ups.empty() || warm_ups == "auto" || warm_ups == "0"
                                  ? ""
                                  : fmt::format(" after {} untimed", warm_ups);
  std::string text = fmt::format(
      "A launch is a fresh start of the program; its time is the median of its {}{}. Intervals: "
      "{} ",
      repetitions_of(study.facts), warm_up, words_on_intervals(study.table));
  if (const std::string reference = words_on_reference(study.table); !reference.empty()) {
    text += reference + ' ';
  }
  if (const std::string cache = run.text("page_cache"); !cache.empty()) {
    text += fmt::format("The page cache was {}. ", cache);
  }
  if (!study.timelines.empty()) {
    text += fmt::format("{} recorded spans for timelines; no curve contains their times. ",
                        counted(study.timelines.size(), "additional run"));
  }
  if (!study.facts.empty() && run.study.name.empty()) {
    text += "These runs have no labels of a study; they are grouped by their work.";
  } else {
    text += "The launcher visits the sizes in random order.";
  }
  return fmt::format("<h3>How it was measured</h3>\n<p>{}</p>\n", escape(text));
}

std::string size_table(const StudyReport& study) {
  Grid grid{{"ranks", "launches", "time [s]", "speed-up", "efficiency", "Karp-Flatt", "bound by",
             "share of bound", "to result [s]", "node-hours", "GPU-hours", "host memory"}};
  for (std::size_t i = 0; i < study.table.sizes.size(); ++i) {
    const study::Size& size = study.table.sizes[i];
    const SizeFacts& facts = study.facts[i];
    grid.rows.push_back(
        {fmt::format("{}", size.ranks), fmt::format("{}", size.launches),
         estimate_text(size.seconds, 4), estimate_text(size.speedup),
         estimate_text(size.efficiency), size.karp_flatt ? estimate_text(*size.karp_flatt) : "-",
         facts.bound_by.empty() ? "-" : facts.bound_by, number_text(facts.bound_share, 2),
         number_text(facts.to_result, 3), number_text(facts.cost.node_hours, 3),
         facts.gpus > 0 ? number_text(facts.cost.gpu_hours, 3) : "-",
         std::isfinite(facts.host_memory) && facts.host_memory >= 0
             ? format_size(static_cast<std::uint64_t>(facts.host_memory))
             : "-"});
  }
  return to_html(without_unknown_columns(grid));
}

std::string raw_points(const StudyReport& study) {
  Grid grid{{"ranks", "launch", "nodes", "repetitions", "median [s]", "min [s]", "max [s]",
             fmt::format("rate [{}/s]", study.unit), "sampling", "throttled", "made", "file"}};
  for (const RunFile& run : study.runs) {
    const auto [min, max] = std::ranges::minmax(run.timing.repetitions);
    grid.rows.push_back(
        {fmt::format("{}", run.size.ranks), fmt::format("{}", run.study.replicate),
         fmt::format("{}", run.size.hosts), fmt::format("{}", run.timing.repetitions.size()),
         number_text(run.timing.median, 6), number_text(min, 6), number_text(max, 6),
         number_text(run.work / run.timing.median), run.timing.sampling,
         run.timing.throttled > 0 ? fmt::format("{} repetitions", run.timing.throttled) : "no",
         run.provenance.created, run.path.string()});
  }
  return folded(
      fmt::format("{}, in the order in which they ran", counted(study.runs.size(), "launch")),
      to_html(grid));
}

std::string provenance(const DetailedStudy& detailed) {
  const StudyReport& study = *detailed.study;
  Grid grid{{"", ""}};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) grid.rows.push_back({name, value});
  };
  add("device", study.device);
  const auto& last = *detailed.medians.back().run;
  add("largest size",
      fmt::format("{}, {}, {}", counted(last.size.ranks, "rank"), counted(last.size.gpus, "GPU"),
                  counted(last.size.hosts, "node")));
  const Telemetry& telemetry = detailed.medians.back().details.telemetry;
  if (telemetry.samples > 0) {
    add("GPUs while they worked",
        fmt::format("{} MHz, {} W and {} °C each (medians of {} samples, largest size)",
                    number_text(telemetry.clock), number_text(telemetry.power, 3),
                    number_text(telemetry.temperature, 3), telemetry.samples));
  }
  for (const auto& [key, name] : {std::pair{"version", "shardstream"},
                                  {"git_commit", "commit"},
                                  {"compiler", "compiler"},
                                  {"flags", "flags"},
                                  {"cuda_toolkit", "CUDA"},
                                  {"nvidia_driver", "driver"},
                                  {"device_software", "device software"},
                                  {"nccl", "NCCL"},
                                  {"mpi", "MPI"},
                                  {"hdf5", "HDF5"},
                                  {"openblas", "OpenBLAS"},
                                  {"network", "network"},
                                  {"operating_system", "operating system"}}) {
    add(name, distinct(detailed, key));
  }
  const std::string variables = environment(detailed);
  return folded("Hardware and versions", to_html(grid)) +
         (variables.empty() ? ""
                            : folded("Environment variables of the job", command_block(variables)));
}

std::string commands(const StudyReport& study) {
  const std::string folder = folder_of(study), again = folder + "-again";
  const std::string ini = fmt::format("{}/{}", folder, study_folder::ini_name);
  std::error_code ignored;
  const bool has_ini =
      !study.runs.front().study.name.empty() && std::filesystem::exists(ini, ignored);
  std::string html;
  if (has_ini) {
    html +=
        "<p>The study once more, with its options in study.ini, and whether it became slower:"
        "</p>\n";
    html +=
        command_block(fmt::format("{}\n{}", shell_line({"shardstream", "scale", ini, "-o", again}),
                                  shell_line({"shardstream", "compare", folder, again})));
  }
  if (!study.runs.front().is_of_program()) {
    return html + folded("One launch at each size", command_block(launches_of_run(study, again)));
  }
  if (!has_ini) return html + "<p>The folder has no study.ini, which has the options.</p>\n";
  return html +
         folded("One launch at each size", command_block(launches_of_program(study, ini, again)));
}

std::string page_command(const Report& report) {
  std::vector<std::string> words = {"shardstream", "report"};
  const auto add = [&](const std::string& word) {
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  };
  for (const StudyReport& study : report.studies) {
    if (study.runs.front().study.name.empty() && study.runs.size() <= max_lines) {
      for (const RunFile& run : study.runs) add(run.path.string());
    } else {
      add(folder_of(study));
    }
  }
  for (const BenchFile& bench : report.benches) add(bench.path.string());
  if (report.together) words.emplace_back("--together");
  words.insert(words.end(), {"-o", "report.html"});
  return "<section id=\"redo\">\n<h2>This page again</h2>\n" + command_block(shell_line(words)) +
         "</section>\n";
}

std::string_view terms() {
  return R"(<section id="terms">
<h2>Terms and formulas</h2>
<dl class="short">
<dt>Speed-up</dt><dd>Strong: S = p0 T(p0) / T(p), the same work on more ranks. Weak: S = p0 R(p) / R(p0) with
the rates R = work / T. The smallest size is p0.</dd>
<dt>Efficiency</dt><dd>E = S / p.</dd>
<dt>Karp-Flatt metric</dt><dd>e = (1/S' - 1/q) / (1 - 1/q) with S' = T(p0) / T(p) and q = p / p0: the
serial share of the run on p0 ranks that would explain S'. Karp and Flatt, CACM 33 (1990).</dd>
<dt>Amdahl's law</dt><dd>T = a + b/q by least squares with weights 1/T², divided by the variance of a
launch; serial share s = a / (a + b) of the run on p0 ranks. Amdahl, AFIPS 1967.</dd>
<dt>Gustafson's law</dt><dd>S/p0 = q - s' (q - 1); s' is a share of the parallel run. Gustafson,
CACM 31 (1988).</dd>
<dt>Intervals</dt><dd>95 %, Student's t on logarithms of launch medians; delta method for shares. The
variance of a size combines that of its launches with one that is fitted to all sizes and may grow
with the ranks. A size whose launches scatter at least three times as much as the others has a
separate variance. A law's bounds are those of one new launch.</dd>
<dt>Efficiency by cause</dt><dd>With useful seconds U of each rank and the wall time T: balance is
mean U / max U, busy is max U / T; their product is mean U / T. For devices with K seconds in
kernels and A seconds with any activity: mean K / max K, max K / max A, max A / T; their product is
mean K / T. Computation scaling is the useful time per work of the smallest size over that of this
size.</dd>
<dt>Overlap</dt><dd>(sum B - T) / (sum B - max B) for the stages of a rank that are busy for B
seconds; the mean of the ranks.</dd>
<dt>Ceilings</dt><dd>link_up, link_down: copies from host to GPU and back. device_read: reading
device memory. device_copy: copying it, bytes read and written. multiply_*: products of tiles in a precision. panel_read: reading the matrices and
copying them into the slots of the upload. panel_feed: the same while the slots are uploaded.
page_cache_read, storage_read: reading the file. decode: generating elements or decoding chunks.</dd>
<dt>Roofline</dt><dd>Rate at most min(peak, bandwidth x work per byte). Each launch measures its
ceilings; the roofs are those of the launch with the median time.</dd>
</dl>
</section>
)";
}

}  // namespace shardstream::report::page
