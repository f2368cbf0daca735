// Puts a finished run into its result file: schema 1.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/table.hpp"
#include "io/origin.hpp"
#include "io/result_file.hpp"
#include "measure/ceilings.hpp"
#include "measure/telemetry.hpp"
#include "measure/timeline.hpp"
#include "runtime/runtime.hpp"
#include "runtime/topology.hpp"
#include "workloads/outcome.hpp"

namespace shardstream::run {

/// What all ranks know of a run and one of them writes.
struct Record {
  runtime::Topology topology;
  Table phases, rank_phase, reps, startup, summary, telemetry;
  std::string energy_from;                    ///< counter, power or nothing
  std::optional<measure::Timeline> timeline;  ///< with measure.timeline
  std::vector<std::string> processes;         ///< what each rank is
  std::vector<std::pair<std::string, std::string>> provenance;
  std::vector<std::pair<std::string, io::Attribute>> resolved;  ///< options, as on this rank
};

/// Adds time, rate, energy if it is known, and verdict to the printed metrics.
void describe_rates(workloads::Outcome& outcome, const measure::RunTelemetry& telemetry);

/// Collective.
Record gather(const runtime::Runtime& runtime, const workloads::Outcome& outcome,
              const measure::RunTelemetry& telemetry);

/// On one rank; publish() is left to the caller.
void store(io::ResultFile& file, const runtime::Runtime& runtime, const Record& record,
           const workloads::Outcome& outcome, const io::Origin& inputs);

}  // namespace shardstream::run
