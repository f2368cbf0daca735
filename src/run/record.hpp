// Puts a finished run into its result file: schema 1. Its timeline becomes a table and a trace.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/table.hpp"
#include "io/hdf5/result_file.hpp"
#include "io/source/origin.hpp"
#include "measure/ceilings.hpp"
#include "measure/telemetry.hpp"
#include "measure/track.hpp"
#include "report/trace.hpp"
#include "runtime/runtime.hpp"
#include "runtime/topology.hpp"
#include "workloads/workload.hpp"

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

/// Table `spans`. `rank_phase` is /timing/rank_phase, which names what the spans belong to.
Table spans_table(const measure::Timeline& timeline, const Table& rank_phase);

/// Writes all but publish(). `processes` says of each rank what it is.
void write_trace(report::TraceFile& trace, const measure::Timeline& timeline,
                 const Table& rank_phase, const std::vector<std::string>& processes);

}  // namespace shardstream::run
