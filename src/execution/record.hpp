// Stores a finished run in its result file (schema 1), and its timeline as a table and a trace.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/description/origin.hpp"
#include "io/hdf5/result_file.hpp"
#include "measure/ceilings.hpp"
#include "measure/telemetry.hpp"
#include "measure/track.hpp"
#include "report/trace.hpp"
#include "result/tables.hpp"
#include "runtime/runtime.hpp"
#include "runtime/topology.hpp"
#include "workloads/workload.hpp"

namespace shardstream::execution {

/// The data on a run that all ranks gather and rank 0 writes.
struct Record {
  runtime::Topology topology;
  std::vector<result::Phase> phases;
  std::vector<result::RankPhase> rank_phase;
  std::vector<result::Repetition> repetitions;
  std::vector<result::Step> startup;
  std::vector<result::MetricSummary> summary;
  std::vector<result::GpuSample> telemetry;
  std::string energy_from;                    ///< counter, power or nothing
  std::optional<measure::Timeline> timeline;  ///< with measure.timeline
  std::vector<std::string> processes;         ///< description of each rank, for the trace
  std::vector<std::pair<std::string, std::string>> provenance;
  std::vector<std::pair<std::string, io::AttributeValue>> resolved;  ///< options, as on this rank
};

/// The seconds of the phase `allocate` on the slowest rank. Collective.
double allocation_time(const runtime::Runtime& runtime);

/// Adds time, its repetitions and interval if there are several, the time of the allocation if it
/// is considerable, rate, ceilings, energy if it is known, and verdict to the printed metrics.
void describe_rates(workloads::Outcome& outcome, const measure::RunTelemetry& telemetry,
                    double allocation);

/// Gathers the record on all ranks. Collective.
Record gather(const runtime::Runtime& runtime, const workloads::Outcome& outcome,
              const measure::RunTelemetry& telemetry);

/// Writes everything to `file`. Called by one rank, which then calls publish().
void store(io::ResultFile& file, const runtime::Runtime& runtime, const Record& record,
           const workloads::Outcome& outcome, const io::Origin& inputs);

}  // namespace shardstream::execution
