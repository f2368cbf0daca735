// What figures need of a run beside RunFile. It is read of one run a size only, since a page may be
// made of a thousand.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "report/run_file.hpp"

namespace shardstream::report::page {

/// A phase of one rank; seconds inside the timed repetitions, host and device together.
struct RankPhase {
  int rank = 0;
  std::string track, phase, kind;
  double seconds = 0;      ///< in all
  double timed = 0;        ///< inside the timed repetitions
  bool on_device = false;  ///< a stream's, not a thread's
};

/// A measured limit of the machine; rates in `unit`.
struct Ceiling {
  std::string name;
  double per_rank = 0, aggregate = 0;
  std::string unit;
  bool on_path = false;
};

struct Span {
  int rank = 0;
  std::string track, phase;
  std::int64_t start = 0, end = 0;  ///< nanoseconds on one clock
};

/// The samples of all GPUs inside the timed repetitions.
struct Telemetry {
  std::size_t samples = 0;
  double power = std::nan(""), clock = std::nan(""), temperature = std::nan("");
};

struct Details {
  bool knows_timed = false;  ///< the file says which part of a phase was in timed repetitions
  std::vector<RankPhase> phases;
  std::vector<Ceiling> ceilings;
  double streamed = 0;  ///< bytes that all ranks stream in a repetition; 0: unknown
  std::map<std::string, std::string> provenance;
  Telemetry telemetry;
  std::vector<Span> spans;   ///< none without a timeline
  std::string why_no_spans;  ///< if there are none
};

/// What the file of `run` has; what it lacks stays empty.
Details read_details(const RunFile& run);

/// Whether the run has been asked for a timeline.
bool has_timeline(const RunFile& run);

}  // namespace shardstream::report::page
