// The parts of a result file that only figures need: phases by rank, spans, telemetry. A
// page reads them only from one or two runs of each size, since it may contain a thousand runs.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "report/run_file.hpp"

namespace shardstream::report::page {

/// A phase of one rank; seconds inside the timed repetitions, host and device together.
struct RankPhase {
  int rank = 0;
  std::string track, phase, kind;
  double seconds = 0;      ///< in total
  double timed = 0;        ///< inside the timed repetitions
  bool on_device = false;  ///< whether the track belongs to a stream, not to a thread

  /// Whether the phase occurs only in timed repetitions.
  bool is_always_timed() const;
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
  bool knows_timed = false;  ///< whether the file has the timed part of each phase
  std::vector<RankPhase> phases;
  std::map<std::string, std::string> provenance;
  Telemetry telemetry;
  std::vector<Span> spans;
  std::string why_no_spans;  ///< the reason if spans were requested but there are none
};

/// The phases of `details` by rank, track and name. Valid as long as `details` is.
class PhaseIndex {
 public:
  explicit PhaseIndex(const Details& details);
  /// The phase of a span; null if the file has none.
  const RankPhase* find(const Span& span) const;

 private:
  std::map<std::tuple<int, std::string, std::string>, const RankPhase*> phases_;
};

/// Whether to read the spans of a timeline, which may be many.
enum class Spans { leave, read };

/// Reads the details from the file of `run`. Members stay empty if the file does not have them.
Details read_details(const RunFile& run, Spans spans);

}  // namespace shardstream::report::page
