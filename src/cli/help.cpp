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
#include "measure/sample.hpp"
#include "measure/telemetry.hpp"
#include "pipeline/pipeline_options.hpp"
#include "ranks/session.hpp"
#include "runtime/runtime.hpp"
#include "study/comparison.hpp"
#include "study/study_labels.hpp"
#include "workloads/registry.hpp"

namespace shardstream::cli {
namespace {

constexpr std::array generate_rows = {
    OptionRow{"input.data", OptionKind::choice, "uniform", "uniform|ramp", "The generator."},
    OptionRow{"input.type", OptionKind::choice, "f32", element_type_range,
              "The element type; auto is f32.", element_type_other_names},
    OptionRow{"output.file", OptionKind::text, "", "FILE.h5:/PATH",
              "The file to write and the path of the data set in it; required."},
    OptionRow{
        "output.overwrite", OptionKind::choice, "false", "false|true|anything",
        "Whether an existing file with all its data sets may be replaced: never (false), only "
        "a file that generate has written (true), or any regular file (anything)."},
};

constexpr std::string_view sources =
    "Options come from the command line, else from SHARDSTREAM_* variables\n"
    "(SHARDSTREAM_OUTPUT_FILE for output.file), else from an INI file, else from the defaults.\n"
    "A SHARDSTREAM_* variable that matches no option gives a warning.\n"
    "Write sizes as 64MiB or 1.5GB, counts as 2^24 or 1e9, and shares as 0.05 or 5%.\n";
constexpr std::string_view sources_of_generate =
    "Options come from the command line, else from SHARDSTREAM_* variables\n"
    "(SHARDSTREAM_INPUT_COUNT for input.count), else from the defaults.\n"
    "A SHARDSTREAM_* variable that matches no option gives a warning.\n"
    "Write sizes as 64MiB or 1.5GB, counts as 2^24 or 1e9, and shares as 0.05 or 5%.\n";

/// One example of a command for each workload.
std::string examples() {
  std::string lines;
  for (const workloads::Workload& workload : workloads::all()) {
    lines += fmt::format("  mpirun -np 2 shardstream run {} {}\n", workload.name, workload.example);
  }
  return lines;
}

/// Describes the options of one workload, and lists the names of the options of every run.
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
      R"(shardstream run {} [OPTIONS]

{}.

  mpirun -np 2 shardstream run {} {}

{}
Options of every run (see shardstream run --help):
{})",
      workload.name, workload.summary, workload.name, workload.example, table.help(own),
      wrapped("  ", fmt::format("--{}", fmt::join(common, " --")), 2));
}

/// One line per workload.
std::string summaries() {
  std::string lines;
  for (const workloads::Workload& workload : workloads::all()) {
    lines += fmt::format("  {:<11} {}\n", workload.name, workload.summary);
  }
  return lines;
}

}  // namespace

OptionTable all_options() {
  std::vector<std::span<const OptionRow>> components = {workloads::run_options(),
                                                        io::input_options(), io::matrix_options()};
  const auto of_workloads = workloads::options();
  components.insert(components.end(), of_workloads.begin(), of_workloads.end());
  components.insert(components.end(),
                    {ranks::launch_options(), runtime::device_options(), comm::comm_options(),
                     pipeline::pipeline_options(), measure::measure_options(),
                     measure::telemetry_options(), io::output_options(), study::label_options()});
  return OptionTable(components);
}

OptionTable generate_options() {
  return all_options().with(generate_rows);
}

std::string program_help() {
  return fmt::format(
      R"(shardstream streams data that is larger than GPU memory through one GPU or many.

  shardstream run WORKLOAD|CONFIG.ini [OPTIONS]   runs one workload on all ranks
  shardstream scale WORKLOAD|CONFIG.ini [OPTIONS] runs a scaling study
  shardstream scale [OPTIONS] -- COMMAND...       runs a scaling study of any program
  shardstream report FILE|FOLDER...               evaluates scaling studies and experiments
  shardstream compare OLD NEW                     tells whether runs became slower
  shardstream bench NAME...|all [OPTIONS]         measures CUDA techniques on your GPUs
  shardstream generate [OPTIONS]                  writes a synthetic HDF5 data set
  shardstream info [OPTIONS]                      shows ranks, CPUs, GPUs and problems
  shardstream COMMAND --help                      shows a command's options
  shardstream help NAME                           explains a command, workload or experiment
  shardstream completion bash|zsh                 completion for a shell, see cmake/README.md
  shardstream man                                 this program's man page: | man -l -
  shardstream --version, -V

{}
{}
Exit codes: 0 done; 1 failed after work had started; 2 fix the command or the input;
3 the result did not pass its verification; 4 compare cannot tell; 5 compare found a point
slower; 75 stopped with a checkpoint: run the same command again.
)",
      examples(), sources);
}

std::string run_help(const Arguments& arguments) {
  for (const std::string& word : arguments) {
    const auto workload = std::ranges::find(workloads::all(), word, &workloads::Workload::name);
    if (workload != workloads::all().end()) return help_of(*workload);
  }
  return fmt::format(
      R"(shardstream run WORKLOAD|CONFIG.ini [OPTIONS]
shardstream run WORKLOAD|CONFIG.ini --dry-run [--ranks N] [--gpus-per-node G]
                [--rates RESULT.h5] [OPTIONS]

Runs one workload on all ranks and writes its result and timings to one HDF5 file.
Workloads:
{}
  --json            prints the results as one JSON object instead of lines
  --quiet           prints nothing but warnings and errors
  --dry-run         shows the plan, the memory and the predicted time of a run on N ranks,
                    but does not run it; needs neither MPI nor a GPU
  --ranks           the N of a dry run; by default the launcher's number of ranks, else 1.
                    Several, such as 1,2,4,8, give a table of predicted times
  --gpus-per-node   ranks on each host in a dry run; by default as the launcher has them,
                    else as in the result of --rates if it has several hosts, else 8
  --rates           short for --measure.rates: a result file of the same machine; a dry run
                    uses its measured rates and assumes the rates that it lacks

  shardstream run WORKLOAD --help   shows the options of one workload

{}
{})",
      summaries(), sources, all_options().help());
}

std::string scale_help(const Arguments&) {
  constexpr std::array<std::string_view, 1> sections = {"scale"};
  return fmt::format(
      R"(shardstream scale WORKLOAD|CONFIG.ini --scale.ranks 1,2,4 [OPTIONS] [-o FOLDER]
shardstream scale --scale.ranks 1,2,4 [OPTIONS] [-o FOLDER] -- COMMAND ARGUMENTS...
shardstream scale --predict S,... --scale.ranks 1,2,4

Measures how a workload scales. Launches shardstream run several times at each number of
ranks, in random order, and keeps the results in one folder. One more run of each size
records a timeline for the figures. All options of run are passed on to these runs. Start
scale itself once, without mpirun or srun. The same command again launches only the runs
that are missing.

With -- COMMAND, it launches any other program in the same way, and measures its wall time
or a time that it prints (scale.metric). No shell reads the command:

  shardstream scale --scale.ranks 1,2,4 -o heat/ -- ./heat --rows 4096
  shardstream scale --scale.ranks 1,2,4 -o sum/ --scale.launcher none -- ./sum -j {{ranks}}

  --list      lists the missing launches with names, predicted times and commands, their
              node-hours and GPU-hours, and suggests a time limit for jobs. A shell can run
              this list
  --rates FILE with --list: predicts with the rates that the result FILE has measured, until
              the calibration run exists; it does not become part of the study
  --only NAME does one launch of that list (calibration first), so that each can be a job
              of its own; several jobs may run at the same time
  --predict S,...
              shows the speed-ups of Amdahl's and Gustafson's laws for one or more serial
              shares S from 0 to 1, such as 0.05,10%, and launches nothing
  --json      prints the report, or the list, as one JSON object
  --quiet     prints nothing but warnings and errors

{}
{})",
      sources, scale_table().help(sections));
}

std::string report_help(const Arguments&) {
  return R"(shardstream report FILE|FOLDER... [-o PAGE.html] [--short|--json|--markdown|--latex]
                 [--csv FOLDER] [--svg FOLDER] [--extra-p FILE] [--together]

Groups result files of run into scaling studies. For each study, it shows times, speed-up,
efficiency and serial fraction (Karp and Flatt) with 95 % confidence intervals over
launches, the fitted scaling laws and whether they fit, the limiting factor at each size,
and the excluded results with the reasons. Tables of bench are shown too.

  --together  draws the studies of two to six folders in one figure and one table, and names
              what differs; for several serial shares, machines or versions
  --short     shortens the text: the sizes, the law, its prediction, and warnings
  -o          writes one HTML page with figures instead of text; figures need gnuplot
  --json      writes one JSON object to standard output instead of text
  --quiet     writes no text, only the files of the other options
  --markdown  writes the sizes with their node-hours and GPU-hours to standard output, as a
              table for an application for computing time; --latex does the same for LaTeX
  --csv       writes STUDY.csv into FOLDER, with one row per repetition
  --svg       writes each figure of the page into FOLDER, such as s1-speedup.svg
  --extra-p   writes an input file for Extra-P (JSON lines); for results of one study
  --output.overwrite true   allows these files to replace earlier ones of their kind;
                            anything: any regular file that is not an input

Exit codes: 0 done; 1 a file is unreadable, but the others are shown; 2 fix the command;
3 results of one study contradict each other.
)";
}

std::string compare_help(const Arguments&) {
  return fmt::format(
      R"(shardstream compare OLD NEW [--threshold {0:g}%] [--launch-noise {1:g}%] [--json]

  shardstream compare old-results/ new-results/

Compares result files of run, or files of bench. OLD is the reference; each side is a file
or a folder of files. A point is the same work on the same number of ranks. For each point,
it shows the ratio NEW/OLD of the times with its 95 % confidence interval and, for
information, the rate and the time to the result. For points that differ, it also shows the
phases and every other change between the sides.

A point is slower if the interval lies above 1 + threshold, faster if it lies below
1 - threshold, the same if it lies between these, and unclear otherwise. A verdict needs
3 launches on each side, or 6 repetitions in each launch. The column change has the
ratio in percent, or ~ without a significant difference.

One launch on each side does not show how much launches scatter. Then the interval assumes
--launch-noise: with {1:g}%, changes below about 17 % are unclear. Three launches per side
measure their scatter and find smaller differences.

  --threshold     the largest change to ignore, above 0% and below 100% (default: {0:g}%)
  --launch-noise  the standard deviation between launches of one program, relative to their
                  time, if each side has one launch; above 0% and below 100% (default: {1:g}%)
  --json          writes one JSON object to standard output instead of text
  --quiet         writes nothing: only the exit code tells

Exit codes, from the times of the work: 0 all points are the same or faster; 1 a file is
unreadable and no point is slower; 2 fix the command or the inputs; 4 a point is unclear
and none is slower; 5 a point is slower.
)",
      100 * study::default_threshold, 100 * study::default_launch_noise);
}

std::string bench_help(const Arguments& arguments) {
  for (const std::string& word : arguments) {
    if (const auto* const found = experiments::find(word)) return experiments::help(*found);
  }
  return fmt::format(
      R"(shardstream bench NAME...|GROUP...|all [--quick] [-o FILE.h5] [OPTIONS]
shardstream bench --list
shardstream bench --search WORD
shardstream bench help NAME...|GROUP...|all [--code]

Runs experiments of the catalogue, each on the GPUs of all ranks at the same time. An
experiment measures a technique of the CUDA guides, with it and without, checks results,
and prints a table with one line per case: the measured value with its 95 % confidence
interval, its share, and a remark. The share is the value divided by a reference: a
ceiling that the same run has measured, or another case. The line `share` names the
reference. If a rank is slower than the others, its number is shown.

  --list      lists the experiments by group
  --search    lists the experiments with a sentence, an option or a section of a guide that has
              all words, such as coalesced or "shared memory"
  help NAME   explains an experiment: its question, variables, expectations and pitfalls, with
              links to guides and its options; with --code, prints its kernels
  --quick     measures fewer and smaller cases for a shorter time
  -o          writes all tables to one file, for shardstream report; the file is updated
              after each experiment
  --json      prints one JSON object at the end instead of tables
  --quiet     prints nothing but warnings and errors

Exit codes: 0 done, even if experiments were not available here; 1 an experiment failed;
2 fix the command, for example a size beyond the memory; 3 a result was wrong. The tables
of the other experiments are kept. If several experiments failed, 3 comes before 1, and 1
before 2.

{}
{})",
      sources_of_generate, bench_table().help(options_of_bench));
}

std::string generate_help(const Arguments&) {
  return fmt::format(
      R"(shardstream generate [OPTIONS] -o FILE.h5:/PATH

Writes a file with one synthetic, contiguous data set. All ranks write in parallel.

  --json      prints one JSON object instead of lines
  --quiet     prints nothing but warnings and errors

{}
{})",
      sources_of_generate, generate_options().help(options_of_generate));
}

std::string info_help(const Arguments&) {
  constexpr std::array<std::string_view, 5> sections = {"launch", "device", "comm", "input",
                                                        "pipeline"};
  return fmt::format(
      R"(shardstream info [CONFIG.ini] [--json] [--measure] [OPTIONS]

Shows versions, the ranks with their CPUs and devices, the GPUs, the links between GPUs, and
the warnings and errors that a run with the same options would give. With an error, the exit
code is that of the run. Unknown numbers are -1 or nan (null in JSON).

  --quiet     writes only warnings and errors
  --json      writes one JSON object instead of text
  --measure   also measures the ceilings of this machine with all ranks at work, including
              the rate of input.data; the options of [input] and [pipeline] apply to it

--json and --measure take no value.

{}
{})",
      sources, all_options().help(sections));
}

}  // namespace shardstream::cli
