#include <fmt/format.h>

#include <cctype>
#include <map>
#include <utility>

#include "core/text.hpp"
#include "io/output/contents.hpp"
#include "report/formats.hpp"

namespace shardstream::report {
namespace {

/// A printable field in the format of RFC 4180.
std::string quoted(const std::string& unchecked) {
  const std::string text = printable(unchecked);
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string field = "\"";
  for (const char letter : text) field += letter == '"' ? "\"\"" : std::string(1, letter);
  return field + '"';
}

/// A name that is valid as a file name on every system.
std::string file_name(const std::string& name) {
  std::string safe;
  for (const char letter : name) {
    const bool plain = (std::isalnum(static_cast<unsigned char>(letter)) != 0) || letter == '-' ||
                       letter == '_' || letter == '.';
    safe += plain ? letter : '_';
  }
  return safe.starts_with('.') ? "_" + safe : safe;
}

}  // namespace

std::vector<NamedText> csv_files(const Report& report) {
  std::vector<NamedText> files;
  std::map<std::string, int> studies;  // by the name of their file
  for (const StudyReport& study : report.studies) {
    const std::string name = file_name(study.name);
    const int number = ++studies[name];
    std::string text = fmt::format("{}{}],device,file\n", io::table_start, printable(study.unit));
    for (const RunFile& run : study.runs) {
      for (std::size_t i = 0; i < run.timing.repetitions.size(); ++i) {
        text += fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", quoted(study.name),
                            quoted(run.study.mode), quoted(study.workload), run.size.ranks,
                            run.size.hosts, run.study.replicate, i, run.timing.repetitions[i],
                            run.work, quoted(run.device), quoted(run.path.string()));
      }
    }
    files.push_back(
        {number == 1 ? name + ".csv" : fmt::format("{}-{}.csv", name, number), std::move(text)});
  }
  return files;
}

}  // namespace shardstream::report
