// Folders of studies: study.ini, attempts.jsonl and results, as `report`, `compare` and `scale`
// read them. The seeds are studies of inputs/examples.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "fuzz/fuzz.hpp"
#include "io/hdf5/result_file.hpp"
#include "report/comparison/comparison.hpp"
#include "report/formats.hpp"
#include "report/page/page.hpp"
#include "scale/results.hpp"
#include "scale/study_options.hpp"
#include "study_folder/folder.hpp"

namespace shardstream::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr auto ini_name = "study.ini", attempts_name = "attempts.jsonl", bench_name = "bench.h5";

/// Values for an option of study.ini, or for a number of attempts.jsonl.
constexpr std::array values = {"0",
                               "-1",
                               "1000000000000",
                               "18446744073709551616",
                               "1e400",
                               "nan",
                               "1,2,3",
                               "1,1,1",
                               "2^63",
                               "",
                               "\"",
                               "\xff\x1b[2J",
                               "1, 2\r",
                               "null",
                               "[1]",
                               "{\"a\":1}",
                               "4294967",
                               "true",
                               "\"\\u001b\"",
                               "99999999,99999998"};

/// Replaces the value after a random one of the separators in `text`.
void replace_value(std::string& text, std::string_view separator, std::string_view ends,
                   Random& random) {
  std::vector<std::size_t> places;
  for (auto at = text.find(separator); at != text.npos; at = text.find(separator, at + 1)) {
    places.push_back(at + separator.size());
  }
  if (places.empty()) return;
  const std::size_t begin = random.pick(places);
  const std::size_t end = std::min(text.find_first_of(ends, begin), text.size());
  text.replace(begin, end - begin, random.pick(values));
}

/// Writes the file of a study; a result gets another run_uuid, so that it can be compared with the
/// original.
void write_as_another_run(const fs::path& path, std::string bytes) {
  write_file(path, bytes);
  if (path.extension() != ".h5") return;
  const std::string uuid = io::ResultReader(path).text("/", "run_uuid");
  const std::string other = std::string(1, uuid[0] == 'a' ? 'b' : 'a') + uuid.substr(1);
  for (auto at = bytes.find(uuid); at != bytes.npos; at = bytes.find(uuid, at + 1)) {
    bytes.replace(at, uuid.size(), other);
  }
  write_file(path, bytes);
}

class Studies final : public Target {
 public:
  explicit Studies(fs::path folder) : folder_(std::move(folder)) {
    const fs::path examples = EXAMPLES;
    for (const char* name : {"reduce-file-strong", "gemm-fp32-weak", "covariance-file-strong"}) {
      fs::create_directory(folder_ / name);
      Files seed;
      for (const char* file : {ini_name, attempts_name, "p1-r1.h5", "p2-r1.h5"}) {
        seed[file] = read_file(examples / name / file);
        write_as_another_run(folder_ / name / file, seed[file]);
      }
      seeds_.push_back({(folder_ / name).string(), std::move(seed)});
    }
    bench_ = read_file(examples / bench_name);
  }

  std::string_view name() const override { return "studies"; }
  Ends ends() const override { return Ends::usage_or_failed; }

  Files make(Random& random) const override {
    const auto& [whole, seed] = random.pick(seeds_);
    Files files = seed;
    if (random.one_in(6)) files[bench_name] = bench_;
    for (std::uint64_t left = 1 + random.below(2); left > 0; --left) {
      const std::string name = random.pick(files).first;
      std::string& bytes = files[name];
      if (name == ini_name && !random.one_in(3)) {
        replace_value(bytes, " = ", "\n", random);
      } else if (name == attempts_name && !random.one_in(3)) {
        replace_value(bytes, "\":", ",}", random);
      } else {
        mutate(bytes, random);
      }
    }
    files["case.words"] = whole;
    return files;
  }

  void run() const override {
    ::setenv("PATH", "", 1);  // so that no gnuplot draws the figures
    const std::array<std::string, 1> here = {"."};
    const std::vector<fs::path> results = report::result_files(here);
    const report::Report report = report::make_report(results);
    report::to_text(report);
    report::to_json(report);
    report::csv_files(report);
    report::problems_of(report);
    report::to_page(report);
    resume();
    const report::ComparisonReport comparison =
        report::make_comparison(read_file("case.words"), ".", {});
    to_text(comparison);
    to_json(comparison);
  }

 private:
  /// Reads what `scale` reads before it resumes a study.
  void resume() const {
    const char* const nothing[] = {nullptr};
    const auto stored = study_folder::read_options(".");
    study_folder::launch_names(stored);
    const Options options = table_.resolve({}, nothing, ini_name);
    const scale::OptionList now = scale::chosen(options);
    scale::first_difference(stored, now);
    scale::extends(stored, now);
    const study_folder::StudyFolder folder(".");
    folder.check();
    folder.expect_only_study();
    for (const char* result : {"p1-r1.h5", "p2-r1.h5"}) {
      scale::why_not_own_result(result, {"", "p1", 1});
    }
  }

  struct Seed {
    std::string folder;
    Files files;
  };

  fs::path folder_;
  std::vector<Seed> seeds_;
  std::string bench_;
  OptionTable table_ = scale::with_run_defaults(cli::scale_table());
};

}  // namespace

std::unique_ptr<Target> studies_target(const fs::path& folder) {
  return std::make_unique<Studies>(folder);
}

}  // namespace shardstream::fuzz
