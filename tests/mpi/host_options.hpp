// The options of a run on the host backend, for what needs a runtime::Runtime.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/transport.hpp"
#include "core/options.hpp"
#include "io/hdf5/result_file.hpp"
#include "io/source/matrix.hpp"
#include "io/source/source.hpp"
#include "measure/sample.hpp"
#include "measure/telemetry.hpp"
#include "pipeline/pipeline_options.hpp"
#include "ranks/session.hpp"
#include "runtime/runtime.hpp"
#include "workloads/registry.hpp"

namespace shardstream::test {

/// Small slots, which so many readers fill; no process is bound to CPUs. `words` are added to the
/// command line.
inline Options host_options(unsigned readers, const std::vector<std::string>& words = {}) {
  std::vector<std::span<const OptionRow>> rooms = workloads::options();
  rooms.insert(rooms.end(),
               {io::input_options(), io::matrix_options(), ranks::launch_options(),
                runtime::device_options(), comm::comm_options(), pipeline::pipeline_options(),
                measure::measure_options(), measure::telemetry_options(), io::output_options()});
  const OptionTable table(rooms);
  std::vector<std::string> line{"--device.backend",   "host",
                                "--launch.bind",      "none",
                                "--pipeline.readers", std::to_string(readers),
                                "--pipeline.slot",    "1MiB"};
  line.insert(line.end(), words.begin(), words.end());
  const char* const none[] = {nullptr};
  return table.resolve(table.parse_command_line(line), none, std::nullopt);
}

}  // namespace shardstream::test
