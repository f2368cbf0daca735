#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "experiments/catalogue.hpp"
#include "io/description/origin.hpp"
#include "io/output/part_file.hpp"
#include "io/output/text_file.hpp"
#include "report/formats.hpp"
#include "report/page/page.hpp"
#include "study_folder/names.hpp"

namespace shardstream::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 6> switches_of_report = {"json",  "quiet",    "markdown",
                                                                "latex", "together", "short"};
constexpr std::array<std::string_view, 3> settings_of_report = {"csv", "extra-p", "svg"};

constexpr std::array rows = {
    OptionRow{"output.file", OptionKind::text, "", "", "The HTML file to write."},
    OptionRow{"output.overwrite", OptionKind::choice, "false", "false|true|anything",
              "Whether an output may replace an earlier one of its kind (true) or any regular file "
              "that is not an input (anything)."}};

/// The result files, and the files in their folders that describe a study and its launches.
std::vector<io::InputFile> inputs_of(const std::vector<fs::path>& results) {
  std::set<fs::path> paths(results.begin(), results.end());
  for (const fs::path& result : results) {
    for (const auto name : {study_folder::ini_name, study_folder::attempts_name}) {
      paths.insert(result.parent_path() / name);
    }
  }
  std::vector<io::InputFile> inputs;
  std::error_code unreadable;
  for (const fs::path& path : paths) {
    if (fs::exists(path, unreadable)) inputs.push_back(io::state_of(path));
  }
  return inputs;
}

/// The files that a report writes.
class Outputs {
 public:
  Outputs(const Options& options, std::vector<io::InputFile> inputs)
      : overwrite_(io::overwrite_of(options)), inputs_(std::move(inputs)) {}

  /// Throws UsageError if the file cannot be written, as far as can be known without its text.
  void expect_destination(const std::string& option, const fs::path& path,
                          io::Contents contents) const {
    io::expect_destination(destination_of(option, path, contents), 0);
  }
  void add(const std::string& option, const fs::path& path, io::Contents contents,
           std::string text) {
    files_.push_back({destination_of(option, path, contents), std::move(text)});
  }
  void add_folder(const std::string& option, const fs::path& folder, io::Contents contents,
                  std::vector<report::NamedText> files) {
    folders_.emplace_back(option, folder);
    for (auto& [name, text] : files) add(option, folder / name, contents, std::move(text));
  }
  /// Checks all destinations before it writes the first file.
  void write(Log& log) const {
    for (const auto& [option, folder] : folders_) io::make_folder(folder, option);
    std::set<fs::path> paths;
    for (const auto& [destination, text] : files_) {
      io::expect_destination(destination, text.size());
      if (paths.insert(fs::absolute(destination.path).lexically_normal()).second) continue;
      throw UsageError(
          fmt::format("{}: '{}' is also another output of this command: choose "
                      "another {}",
                      destination.option, destination.path.string(), destination.option));
    }
    for (const auto& [destination, text] : files_) {
      io::write_text(destination, text);
      if (destination.contents != io::Contents::page) {
        log.info(fmt::format("wrote '{}'", destination.path.string()));
      }
    }
  }

 private:
  struct File {
    io::Destination destination;
    std::string text;
  };

  io::Destination destination_of(const std::string& option, const fs::path& path,
                                 io::Contents contents) const {
    return {path, contents, overwrite_, inputs_, option};
  }

  io::Overwrite overwrite_;
  std::vector<io::InputFile> inputs_;
  std::vector<std::pair<std::string, fs::path>> folders_;  ///< with the option that names each
  std::vector<File> files_;
};

/// The value of a setting; null if it is not given.
const std::string* setting(const CommandLine& line, std::string_view name) {
  const auto found = line.settings.find(name);
  return found == line.settings.end() ? nullptr : &found->second;
}

/// Throws UsageError if the command line asks for tables of studies and there are only files of
/// bench.
void expect_studies(const report::Report& report, const CommandLine& line) {
  if (!report.studies.empty() || report.benches.empty()) return;
  if (line.switches.contains("latex") || setting(line, "csv")) {
    throw UsageError(
        "--latex and --csv write tables of studies: for files of bench, use --markdown or --json");
  }
}

/// Adds the files that the command line asks for. Returns the reason why the page has no pictures,
/// or "".
std::string add_outputs(const CommandLine& line, const std::optional<fs::path>& page_path,
                        const report::Report& report, Outputs& outputs) {
  if (const std::string* const folder = setting(line, "csv")) {
    outputs.add_folder("--csv", *folder, io::Contents::table, report::csv_files(report));
  }
  if (const std::string* const path = setting(line, "extra-p")) {
    report::expect_one_study(report);
    outputs.add("--extra-p", *path, io::Contents::extra_p,
                report::to_extra_p(report.studies.front()));
  }
  if (const std::string* const folder = setting(line, "svg")) {
    outputs.add_folder("--svg", *folder, io::Contents::figure, report::figure_files(report));
  }
  if (!page_path) return {};
  report::Page page = report::to_page(report, experiments::lesson_of);
  outputs.add("output.file", *page_path, io::Contents::page, std::move(page.html));
  return page.why_no_pictures;
}

int report(const Arguments& arguments, const char* const*) {
  const OptionTable table({rows});
  const CommandLine line =
      table.parse_command_line(arguments, switches_of_report, settings_of_report);
  const char* const no_environment = nullptr;
  if (line.words.empty()) {
    throw UsageError("report needs result files or folders of them: see shardstream report --help");
  }
  const Printing printing = printing_of(line);
  const bool as_json = printing == Printing::json;
  const bool as_markdown = line.switches.contains("markdown");
  const bool as_latex = line.switches.contains("latex");
  const auto detail =
      line.switches.contains("short") ? report::Detail::brief : report::Detail::full;
  if (int{as_json} + int{as_markdown} + int{as_latex} > 1) {
    throw UsageError("--json, --markdown and --latex write to standard output: give one of them");
  }
  const Options options = table.resolve(line, &no_environment, std::nullopt);
  std::optional<fs::path> page;
  if (!options.is_default("output.file")) page = options.text("output.file");
  const bool prints_text = !page && printing == Printing::text && !as_markdown && !as_latex;
  if (detail == report::Detail::brief && !prints_text) {
    throw UsageError("--short shortens the text: leave out --short, or the other form of output");
  }
  // libhdf5 allocates and frees a megabyte for each file. By default, returning it to the system
  // takes three quarters of the time for a thousand files.
  mallopt(M_MMAP_THRESHOLD, 16 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  const std::vector<fs::path> files = report::result_files(line.words);
  Outputs outputs(options, inputs_of(files));
  if (page) outputs.expect_destination("output.file", *page, io::Contents::page);
  if (const std::string* const path = setting(line, "extra-p")) {
    outputs.expect_destination("--extra-p", *path, io::Contents::extra_p);
  }
  const report::Report report = line.switches.contains("together")
                                    ? report::make_report_together(files)
                                    : report::make_report(files);
  if (report.studies.empty() && report.unreadable.size() == 1) {
    throw UsageError(report.unreadable.front().reason);
  }
  expect_studies(report, line);
  Log log;
  const std::string why_no_pictures = add_outputs(line, page, report, outputs);
  outputs.write(log);
  if (!why_no_pictures.empty()) {
    log.warn(fmt::format("the page lacks figures: {}", why_no_pictures));
  }
  if (!prints_text) {  // the text has the sentences itself
    for (const std::string& problem : report::problems_of(report)) log.error(problem);
  }
  if (printing == Printing::none) return report::exit_code(report);
  print_output(as_json       ? report::to_json(report)
               : as_markdown ? report::to_markdown(report) + report::figure_values(report)
               : as_latex    ? report::to_latex(report)
               : page        ? fmt::format("page={}\n", printable(page->string()))
                             : report::to_text(report, detail));
  return report::exit_code(report);
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
              table for an application for computing time; for files of bench, the values of
              all figures: each bar, and the smallest and largest value of each line
  --latex     writes the table of the sizes for LaTeX
  --csv       writes STUDY.csv into FOLDER, with one row per repetition
  --svg       writes each figure of the page into FOLDER, such as s1-speedup.svg
  --extra-p   writes an input file for Extra-P (JSON lines); for results of one study
  --output.overwrite true   allows these files to replace earlier ones of their kind;
                            anything: any regular file that is not an input

Exit codes: 0 done; 1 a file is unreadable, but the others are shown; 2 fix the command;
3 results of one study contradict each other.
)";
}

}  // namespace

extern const Command about_report = {
    .name = "report",
    .arguments = "FILE|FOLDER...",
    .summary = "evaluates scaling studies and experiments",
    .switches = switches_of_report,
    .settings = settings_of_report,
    .options = [] { return std::vector<OptionRow>(rows.begin(), rows.end()); },
    .help = report_help,
    .run = report};

}  // namespace shardstream::cli
