#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "cli/commands.hpp"
#include "comm/transport.hpp"
#include "core/text.hpp"
#include "experiments/catalogue.hpp"
#include "io/hdf5/result_file.hpp"
#include "io/source/matrix.hpp"
#include "io/source/source.hpp"
#include "launch/session.hpp"
#include "measure/sample.hpp"
#include "measure/telemetry.hpp"
#include "pipeline/options.hpp"
#include "runtime/runtime.hpp"
#include "study/labels.hpp"
#include "workloads/registry.hpp"

namespace shardstream::cli {
namespace {

constexpr std::array generate_rows = {
    OptionRow{"input.data", OptionKind::choice, "uniform", "uniform|ramp", "The generator."},
    OptionRow{"input.type", OptionKind::choice, "f32", "auto|f32|f64|i32|i64|i8|u8",
              "The type of the elements; auto is f32."},
    OptionRow{"output.file", OptionKind::text, "", "FILE.h5:/PATH",
              "The file to write and the data set in it; this option must be given."},
    OptionRow{"output.overwrite", OptionKind::choice, "false", "false|true|anything",
              "Whether an existing file is replaced, with all its data sets: never (false), if "
              "generate has written it (true), or any regular file (anything)."},
};

constexpr std::string_view sources =
    "Options come from the command line, then from SHARDSTREAM_* variables\n"
    "(SHARDSTREAM_OUTPUT_FILE for output.file), then from an INI file, then from the defaults.\n"
    "Variables that no option has are ignored with a warning.\n"
    "Sizes read 64MiB or 1.5GB, counts 2^24 or 1e9.\n";
constexpr std::string_view sources_of_generate =
    "Options come from the command line, then from SHARDSTREAM_* variables\n"
    "(SHARDSTREAM_INPUT_COUNT for input.count), then from the defaults.\n"
    "Variables that no option has are ignored with a warning.\n"
    "Sizes read 64MiB or 1.5GB, counts 2^24 or 1e9.\n";

/// A command for each workload.
std::string examples() {
  std::string lines;
  for (const workloads::Workload& workload : workloads::all()) {
    lines += fmt::format("  mpirun -np 2 shardstream run {} {}\n", workload.name, workload.example);
  }
  return lines;
}

/// The options of a workload in full, and those of every run by name.
std::string help_of(const workloads::Workload& workload) {
  const OptionTable table = all_options();
  std::vector<std::string_view> own = workload.honours, common;
  for (const auto& section : workload.options) {
    for (const OptionRow& row : section) own.push_back(row.key);
  }
  for (const OptionRow& row : table.rows()) {
    if (!workloads::is_of_some_workload(row.key) && row.key != "run.workload")
      common.push_back(row.key);
  }
  return fmt::format(
      "shardstream run {} [OPTIONS]\n"
      "\n"
      "{}.\n"
      "\n"
      "  mpirun -np 2 shardstream run {} {}\n"
      "\n"
      "{}\n"
      "Options of every run (see shardstream run --help):\n"
      "{}",
      workload.name, workload.summary, workload.name, workload.example, table.help(own),
      wrapped("  ", fmt::format("--{}", fmt::join(common, " --")), 2));
}

/// A line for each workload.
std::string summaries() {
  std::string lines;
  for (const workloads::Workload& workload : workloads::all()) {
    lines += fmt::format("  {:<11} {}\n", workload.name, workload.summary);
  }
  return lines;
}

}  // namespace

OptionTable all_options() {
  std::vector<std::span<const OptionRow>> rooms = {workloads::run_options(), io::input_options(),
                                                   io::matrix_options()};
  const auto of_workloads = workloads::options();
  rooms.insert(rooms.end(), of_workloads.begin(), of_workloads.end());
  rooms.insert(rooms.end(),
               {launch::launch_options(), runtime::device_options(), comm::comm_options(),
                pipeline::pipeline_options(), measure::measure_options(),
                measure::telemetry_options(), io::output_options(), study::label_options()});
  return OptionTable(rooms);
}

OptionTable generate_options() {
  return all_options().with(generate_rows);
}

std::string program_help() {
  return fmt::format(
      "shardstream streams data larger than a GPU through it, on one rank or many.\n"
      "\n"
      "  shardstream run WORKLOAD|CONFIG.ini [OPTIONS]   one workload over all ranks\n"
      "  shardstream scale WORKLOAD|CONFIG.ini [OPTIONS] a scaling study: many runs, one folder\n"
      "  shardstream report FILE|FOLDER...               scaling studies from result files\n"
      "  shardstream compare OLD NEW                     whether runs became slower\n"
      "  shardstream bench NAME...|all [OPTIONS]         measures techniques on your own GPUs\n"
      "  shardstream generate [OPTIONS]                  writes a synthetic HDF5 data set\n"
      "  shardstream info [OPTIONS]                      what a run would have, and what is wrong\n"
      "  shardstream COMMAND --help                      a command's options\n"
      "  shardstream --version\n"
      "\n"
      "{}"
      "\n"
      "{}"
      "\n"
      "Exit codes: 0 done; 1 failed after work had started; 2 fix the command or the input;\n"
      "3 the result did not pass its verification; 4 compare cannot tell; 5 compare found a point\n"
      "slower; 75 interrupted, with a checkpoint: run again.\n",
      examples(), sources);
}

std::string run_help(const Arguments& arguments) {
  for (const std::string& word : arguments) {
    const auto workload = std::ranges::find(workloads::all(), word, &workloads::Workload::name);
    if (workload != workloads::all().end()) return help_of(*workload);
  }
  return fmt::format(
      "shardstream run WORKLOAD|CONFIG.ini [OPTIONS]\n"
      "shardstream run WORKLOAD|CONFIG.ini --dry-run [--ranks N] [--gpus-per-node G]\n"
      "                [--rates RESULT.h5] [OPTIONS]\n"
      "\n"
      "Runs one workload over all ranks and writes its result with timings to one HDF5 file.\n"
      "Workloads:\n"
      "{}"
      "\n"
      "  --dry-run         says how N ranks would do it, in which memory and about how long it\n"
      "                    would take, and does nothing; starts no MPI and needs no GPU\n"
      "  --ranks           of how many ranks (as many as the launcher starts; without one 1)\n"
      "  --gpus-per-node   how many of them are on a host (as the launcher has them; else 8)\n"
      "  --rates           short for --measure.rates: a result of the same machine; a dry run "
      "takes\n"
      "                    its measured ceilings and assumes what it lacks\n"
      "\n"
      "  shardstream run WORKLOAD --help   the options of one workload\n"
      "\n"
      "{}\n{}",
      summaries(), sources, all_options().help());
}

std::string scale_help(const Arguments&) {
  constexpr std::array<std::string_view, 1> sections = {"scale"};
  return fmt::format(
      "shardstream scale WORKLOAD|CONFIG.ini --scale.ranks 1,2,4 [OPTIONS] [-o FOLDER]\n"
      "shardstream scale --predict S --scale.ranks 1,2,4\n"
      "\n"
      "Measures how a workload scales: launches shardstream run at each number of ranks, several\n"
      "times and in random order, and keeps the results in one folder; one more run of each size\n"
      "keeps a timeline for the figures. Every option of run counts for these runs. Start it "
      "once,\n"
      "without mpirun or srun. The same command again launches only what is missing.\n"
      "\n"
      "  --list      shows what is missing: names of launches, predicted times, commands\n"
      "  --only NAME does one launch of that list (calibration first), for a job of its own;\n"
      "              several jobs may do so at a time\n"
      "  --predict   shows the speed-ups of Amdahl's and Gustafson's laws for the serial share S,\n"
      "              from 0 to 1, and launches nothing\n"
      "\n"
      "{}\n{}",
      sources, scale_table().help(sections));
}

std::string report_help(const Arguments&) {
  return "shardstream report FILE|FOLDER... [-o PAGE.html] [--json] [--csv FOLDER] "
         "[--svg FOLDER]\n"
         "                 [--extra-p FILE]\n"
         "\n"
         "Groups results of run into scaling studies and shows for each: times, speed-up, "
         "efficiency\n"
         "and serial fraction (Karp and Flatt) with 95 % intervals over launches, the fitted laws "
         "and\n"
         "whether they fit, what bounds each size, and what does not count and why.\n"
         "\n"
         "  -o          writes one HTML page with figures, which gnuplot draws, instead of text\n"
         "  --output.overwrite true   lets it replace a page; anything: any file\n"
         "  --json      one JSON object on standard output instead of text\n"
         "  --csv       writes STUDY.csv into FOLDER, a row for each repetition\n"
         "  --svg       writes each figure of the page into FOLDER, such as s1-speedup.svg\n"
         "  --extra-p   writes the input of Extra-P (JSON lines)\n"
         "\n"
         "Exit codes: 0 done; 1 a file is unreadable, the others are shown; 2 fix the command;\n"
         "3 results of one study contradict each other.\n";
}

std::string compare_help(const Arguments&) {
  return "shardstream compare OLD NEW [--threshold 2%] [--json]\n"
         "\n"
         "  shardstream compare old-results/ new-results/\n"
         "\n"
         "Compares results of run: OLD is the reference, NEW is judged; each is a file or a folder "
         "of\n"
         "files. Runs of the same work on as many ranks are compared: the ratio NEW/OLD of the "
         "times\n"
         "with its 95 % interval, the rate and the time to the result, for information. For points "
         "that\n"
         "differ there are the phases, and what else changed between the sides.\n"
         "\n"
         "A point is slower if the interval lies above 1 + threshold, faster if below 1 - "
         "threshold,\n"
         "the same if within both, and else unclear. A verdict needs 3 launches, or 6 repetitions, "
         "on\n"
         "each side. The column change has the ratio in percent, or ~ if there is no difference "
         "that "
         "can\n"
         "be told.\n"
         "\n"
         "  --threshold   the change that does not matter, above 0% and below 100% (2%)\n"
         "  --json        one JSON object on standard output instead of text\n"
         "\n"
         "Exit codes, by the time of the work: 0 all points are the same or faster; 1 a file is\n"
         "unreadable and no point is slower; 2 fix the command or the inputs; 4 a point is unclear "
         "and\n"
         "none is slower; 5 a point is slower.\n";
}

std::string bench_help(const Arguments& arguments) {
  for (const std::string& word : arguments) {
    const auto experiment =
        std::ranges::find(experiments::all(), word, &experiments::Experiment::name);
    if (experiment != experiments::all().end()) return experiments::help(*experiment);
  }
  return fmt::format(
      "shardstream bench NAME...|GROUP...|all [--quick] [-o FILE.h5] [OPTIONS]\n"
      "shardstream bench --list\n"
      "shardstream bench help NAME\n"
      "\n"
      "Runs experiments of the catalogue, each on the GPUs of all ranks at once. An experiment\n"
      "measures a technique of the CUDA guides with and without, checks the answers, and prints a\n"
      "table: what varies, the figure with its 95 % interval, its share of a ceiling of the same "
      "run\n"
      "or of another case, and a remark. The line `share` names what it is a share of. A rank "
      "that\n"
      "is slower than the others is named.\n"
      "\n"
      "  --list      the experiments, by group\n"
      "  help NAME   what an experiment varies, why, what to expect, and its options\n"
      "  --quick     fewer and smaller cases, measured for a shorter time\n"
      "  -o          one file with all tables, for shardstream report; it is written again after\n"
      "              each experiment\n"
      "\n"
      "Exit codes: 0 done, also if experiments were not available here; 1 an experiment failed;\n"
      "2 fix the command; 3 an answer was wrong. The other experiments' tables are kept.\n"
      "\n"
      "{}\n{}",
      sources_of_generate, bench_table().help(options_of_bench));
}

std::string generate_help(const Arguments&) {
  return fmt::format(
      "shardstream generate [OPTIONS] -o FILE.h5:/PATH\n"
      "\n"
      "Writes a file with one synthetic data set, contiguous, all ranks side by side.\n"
      "\n"
      "{}\n{}",
      sources_of_generate, generate_options().help(options_of_generate));
}

std::string info_help(const Arguments&) {
  constexpr std::array<std::string_view, 5> sections = {"launch", "device", "comm", "input",
                                                        "pipeline"};
  return fmt::format(
      "shardstream info [CONFIG.ini] [--json] [--measure] [OPTIONS]\n"
      "\n"
      "Shows what each rank sees and binds: versions, ranks with their CPUs and devices, GPUs,\n"
      "how GPUs reach each other, and findings: what a run with the same options would warn of or\n"
      "be refused for. In the latter case the exit code is that of the run. Numbers that are not\n"
      "known are -1 or nan (null in JSON).\n"
      "\n"
      "  --json      one JSON object instead of text\n"
      "  --measure   also measures the ceilings of this machine, with all ranks at work, among\n"
      "              them what input.data gives; the options of [input] and [pipeline] count for "
      "it\n"
      "\n"
      "--json and --measure take no value; every other option does, a flag true or false.\n"
      "\n"
      "{}\n{}",
      sources, all_options().help(sections));
}

}  // namespace shardstream::cli
