// The options of a run on the host backend, for what needs a runtime::Runtime.
#pragma once

#include <optional>
#include <string>

#include "comm/options.hpp"
#include "core/options.hpp"
#include "launch/options.hpp"
#include "measure/repeat.hpp"
#include "measure/telemetry.hpp"
#include "pipeline/options.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::test {

/// Small slots, which so many readers fill. No process is bound to CPUs.
inline Options host_options(unsigned readers) {
  const OptionTable table({launch::launch_options(), runtime::device_options(),
                           comm::comm_options(), pipeline::pipeline_options(),
                           measure::measure_options(), measure::telemetry_options()});
  const char* const none[] = {nullptr};
  return table.resolve(
      table.parse_command_line({"--device.backend", "host", "--launch.bind", "none",
                                "--pipeline.readers", std::to_string(readers), "--pipeline.slot",
                                "1MiB"}),
      none, std::nullopt);
}

}  // namespace shardstream::test
