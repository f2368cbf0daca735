#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "cli/commands.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "io/output/part_file.hpp"
#include "report/formats.hpp"
#include "report/page/page.hpp"

namespace shardstream::cli {
namespace {

constexpr std::array rows = {
    OptionRow{"output.file", OptionKind::text, "", "", "The HTML file to write."},
    OptionRow{"output.overwrite", OptionKind::choice, "false", "false|true|anything",
              "Whether the page may replace an existing page (true) or any file (anything)."}};

/// The page of -o, if it was asked for. The constructor checks that the file can be written, before
/// many result files are read.
class PageOutput {
 public:
  explicit PageOutput(const Options& options)
      : path_(options.text("output.file")), overwrite_(io::overwrite_of(options)) {
    if (is_wanted()) io::expect_place(path_, overwrite_, io::Contents::page, 0);
  }
  bool is_wanted() const { return !path_.empty(); }
  void write(const report::Report& report) const {
    const report::Page page = report::to_page(report);
    report::write_page(page.html, path_, overwrite_);
    Log log;
    if (!page.why_no_pictures.empty()) {
      log.warn(fmt::format("the page lacks figures: {}", page.why_no_pictures));
    }
  }
  std::string line() const { return fmt::format("page={}\n", printable(path_)); }

 private:
  std::string path_;
  io::Overwrite overwrite_;
};

}  // namespace

int report(const Arguments& arguments, const char* const*) {
  constexpr std::array<std::string_view, 1> switches = {"json"};
  constexpr std::array<std::string_view, 3> settings = {"csv", "extra-p", "svg"};
  const OptionTable table(std::vector<std::span<const OptionRow>>{rows});
  const CommandLine line = table.parse_command_line(arguments, switches, settings);
  const char* const no_environment = nullptr;
  if (line.words.empty()) {
    throw UsageError("report needs result files or folders of them: see shardstream report --help");
  }
  Log log;
  const auto wrote = [&log](const std::filesystem::path& path) {
    log.info(fmt::format("wrote '{}'", path.string()));
  };
  reject_json_file(line);
  const PageOutput page(table.resolve(line, &no_environment, std::nullopt));
  // libhdf5 allocates and frees a megabyte for each file. By default, returning it to the system
  // takes three quarters of the time for a thousand files.
  mallopt(M_MMAP_THRESHOLD, 16 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  const report::Report report = report::make_report(report::result_files(line.words));
  if (report.studies.empty() && report.unreadable.size() == 1) {
    throw UsageError(report.unreadable.front().reason);
  }
  if (line.settings.contains("extra-p")) report::expect_one_study(report);
  if (const auto folder = line.settings.find("csv"); folder != line.settings.end()) {
    for (const auto& path : report::write_csv(report, folder->second)) wrote(path);
  }
  if (const auto path = line.settings.find("extra-p"); path != line.settings.end()) {
    std::ofstream file(path->second);
    file << report::to_extra_p(report.studies.front());
    if (!file.flush()) throw Error(fmt::format("cannot write '{}'", path->second));
    wrote(path->second);
  }
  if (const auto folder = line.settings.find("svg"); folder != line.settings.end()) {
    for (const auto& path : report::write_figures(report, folder->second)) wrote(path);
  }
  if (page.is_wanted()) page.write(report);
  if (page.is_wanted() || line.switches.contains("json")) {  // the text has the sentences itself
    for (const std::string& problem : report::problems_of(report)) log.error(problem);
  }
  print_output(line.switches.contains("json") ? report::to_json(report)
               : page.is_wanted()             ? page.line()
                                              : report::to_text(report));
  return report::exit_code(report);
}

}  // namespace shardstream::cli
