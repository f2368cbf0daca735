#include "scale/program/exec.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "core/descriptor.hpp"
#include "core/digest.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "device/host/host_device.hpp"
#include "process/child.hpp"
#include "ranks/cpus.hpp"
#include "ranks/session.hpp"
#include "runtime/provenance.hpp"
#include "study_folder/process_record.hpp"

namespace shardstream::scale::program {
namespace {

namespace fs = std::filesystem;

std::string contents_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);  // empty if it can be executed but not read
  return {std::istreambuf_iterator<char>(file), {}};
}

study_folder::ProcessRecord record_of(const fs::path& program) {
  const std::string contents = contents_of(program);
  return {.rank = ranks::launched_rank().value_or(0),
          .host = study_folder::host_name(),
          .processor = device::host::processor_name(),
          .pid = getpid(),
          .cpus = ranks::granted_cpu_list(),
          .cpu_nodes = ranks::numa_nodes_of_cpus(ranks::granted_cpus()),
          .cpu_count = std::ssize(ranks::granted_cpus()),
          .program = program,
          .bytes = contents.size(),
          .checksum = digest_of(contents),
          .operating_system = runtime::operating_system(),
          .environment = runtime::job_environment()};
}

double utc_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

std::vector<std::string> arguments_of(const Execution& execution) {
  std::vector<std::string> arguments;
  if (!execution.records.empty()) {
    arguments.insert(arguments.end(), {"--records", execution.records.string()});
  }
  for (const std::string& variable : execution.environment) {
    arguments.insert(arguments.end(), {"--set", variable});
  }
  arguments.emplace_back("--");
  arguments.insert(arguments.end(), execution.command.begin(), execution.command.end());
  return arguments;
}

Execution parse_execution(const std::vector<std::string>& arguments) {
  Execution execution;
  std::size_t at = 0;
  for (; at + 1 < arguments.size() && arguments[at] != "--"; at += 2) {
    const std::string& value = arguments[at + 1];
    if (arguments[at] == "--records") {
      execution.records = value;
    } else if (arguments[at] == "--set" && value.find('=', 1) != value.npos) {
      execution.environment.push_back(value);
    } else {
      throw UsageError(
          fmt::format("exec: {} is not one of its options: write shardstream exec "
                      "[--records FOLDER] [--set KEY=VALUE]... -- COMMAND",
                      excerpt(arguments[at])));
    }
  }
  if (at + 1 >= arguments.size()) {
    throw UsageError("exec: there is no command: write it after --");
  }
  execution.command.assign(arguments.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                           arguments.end());
  return execution;
}

void become(const Execution& execution) {
  const std::string& name = execution.command.front();
  for (const std::string& variable : execution.environment) {
    const auto end = variable.find('=');
    setenv(variable.substr(0, end).c_str(), variable.substr(end + 1).c_str(), 1);
  }
  const auto program = process::find_program(name);
  if (!program) {
    throw UsageError(fmt::format("there is no program {} on the host {}: name its path",
                                 excerpt(name), study_folder::host_name()));
  }
  std::vector<char*> words;
  std::vector<std::string> copies = execution.command;
  for (std::string& word : copies) words.push_back(word.data());
  words.push_back(nullptr);
  std::signal(SIGXFSZ, SIG_DFL);  // `scale` ignores it
  if (!execution.records.empty()) {
    study_folder::ProcessRecord record = record_of(fs::absolute(*program).lexically_normal());
    record.utc_start = utc_now();
    study_folder::write_record(execution.records, record);
  }
  execv(program->c_str(), words.data());
  throw Error(fmt::format("'{}' cannot be executed ({}): check its permissions and its interpreter",
                          program->string(), errno_text(errno)));
}

}  // namespace shardstream::scale::program
