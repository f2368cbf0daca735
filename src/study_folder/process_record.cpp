#include "study_folder/process_record.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/files.hpp"

namespace shardstream::study_folder {
namespace {

namespace fs = std::filesystem;

fs::path path_of(const fs::path& folder, std::uint64_t rank) {
  return folder / fmt::format("rank-{}.json", rank);
}

ProcessRecord parsed(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  return {.rank = json.at("rank"),
          .host = json.at("host"),
          .processor = json.at("processor"),
          .pid = json.at("pid"),
          .cpus = json.at("cpus"),
          .cpu_nodes = json.at("cpu_nodes"),
          .cpu_count = json.at("cpu_count"),
          .program = json.at("program").get<std::string>(),
          .bytes = json.at("bytes"),
          .checksum = json.at("checksum"),
          .operating_system = json.at("operating_system"),
          .environment = json.at("environment"),
          .utc_start = json.at("utc_start")};
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

void write_record(const fs::path& folder, const ProcessRecord& record) {
  const nlohmann::ordered_json json = {{"rank", record.rank},
                                       {"host", record.host},
                                       {"processor", record.processor},
                                       {"pid", record.pid},
                                       {"cpus", record.cpus},
                                       {"cpu_nodes", record.cpu_nodes},
                                       {"cpu_count", record.cpu_count},
                                       {"program", record.program.string()},
                                       {"bytes", record.bytes},
                                       {"checksum", record.checksum},
                                       {"operating_system", record.operating_system},
                                       {"environment", record.environment},
                                       {"utc_start", record.utc_start}};
  const std::string text = json.dump(1, ' ', true, nlohmann::json::error_handler_t::replace);
  const fs::path path = path_of(folder, record.rank);
  Descriptor file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
  if (!file.valid() && errno == EEXIST) {
    throw Error(fmt::format(
        "two processes of this launch have the rank {}: use a launcher that sets a variable with "
        "the rank of each process, such as OMPI_COMM_WORLD_RANK, PMI_RANK or SLURM_PROCID",
        record.rank));
  }
  if (file.valid() && file.write_at(0, std::as_bytes(std::span(text))) && file.close()) return;
  throw Error(fmt::format("cannot write '{}' ({}): all hosts must reach the folder of the study",
                          path.string(), errno_text(errno)));
}

std::vector<ProcessRecord> read_records(const fs::path& folder, std::uint64_t ranks) {
  constexpr std::uint64_t max_bytes = std::uint64_t{1} << 20;
  std::vector<ProcessRecord> records;
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    const auto text = read_small_file(path_of(folder, rank), max_bytes);
    if (!text) {
      throw Error(
          fmt::format("the launcher has started no process with the rank {} of {}", rank, ranks));
    }
    try {
      records.push_back(parsed(*text));
    } catch (const nlohmann::json::exception& error) {
      throw Error(fmt::format("'{}' is not complete ({}): check the disk",
                              path_of(folder, rank).string(), error.what()));
    }
  }
  return records;
}

void remove_records(const fs::path& folder, std::uint64_t ranks) {
  std::error_code ignored;  // they stay beside the log
  for (std::uint64_t rank = 0; rank < ranks; ++rank) fs::remove(path_of(folder, rank), ignored);
  fs::remove(folder, ignored);
}

}  // namespace shardstream::study_folder
