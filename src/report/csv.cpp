#include <fmt/format.h>

#include <cerrno>
#include <fstream>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "report/formats.hpp"

namespace shardstream::report {
namespace {

/// A field in the format of RFC 4180.
std::string quoted(const std::string& text) {
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

std::vector<std::filesystem::path> write_csv(const Report& report,
                                             const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw UsageError(
        fmt::format("--csv: cannot create the folder '{}': {}", folder.string(), error.message()));
  }
  std::vector<std::filesystem::path> written;
  for (const StudyReport& study : report.studies) {
    const auto path = folder / (file_name(study.name) + ".csv");
    std::ofstream file(path);
    file << fmt::format(
        "study,mode,workload,ranks,hosts,replicate,repetition,time [s],work [{}],"
        "device,file\n",
        study.unit);
    for (const RunFile& run : study.runs) {
      for (std::size_t i = 0; i < run.repetitions.size(); ++i) {
        file << fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", quoted(study.name), run.mode,
                            quoted(study.workload), run.ranks, run.hosts, run.replicate, i,
                            run.repetitions[i], run.work, quoted(run.device),
                            quoted(run.path.string()));
      }
    }
    if (!file.flush()) {
      throw Error(fmt::format("cannot write '{}': {}", path.string(), errno_text(errno)));
    }
    written.push_back(path);
  }
  return written;
}

}  // namespace shardstream::report
