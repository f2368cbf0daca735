// A timeline as a trace that Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open: JSON in
// the Trace Event Format, one process a rank, one thread a track.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/descriptor.hpp"
#include "io/output/part_file.hpp"

namespace shardstream::report {

/// Writes as it is told, so that its memory does not grow with the spans. Members
/// throw Error when the file cannot be written. The file has its name only after publish().
class TraceFile {
 public:
  /// Reserves `bytes` on disk. As io::PartFile, which see for what is thrown.
  TraceFile(const std::filesystem::path& path, io::Overwrite overwrite, const std::string& run_uuid,
            std::uint64_t bytes);

  /// Comes first. `alignment_error` in seconds.
  void begin(double alignment_error);
  void process(int rank, std::string_view name);
  void thread(int rank, std::uint32_t track, std::string_view name);
  /// `batch` below 0 is none.
  void span(int rank, std::uint32_t track, std::string_view name, std::int64_t batch,
            std::int64_t start_ns, std::int64_t dur_ns);
  /// Comes last: from then on all has been written, though it may not be on disk.
  void end();

  /// Puts the file on disk and in its place.
  void publish() { part_.publish(); }
  const std::filesystem::path& path() const { return part_.path(); }

 private:
  void event(std::string_view text);
  void flush();

  io::PartFile part_;
  std::string run_uuid_;
  Descriptor file_;
  std::string buffer_;
  std::uint64_t written_ = 0;
  bool first_ = true;
};

/// `text` as a JSON string, with its quotes. Bytes that are not UTF-8 are replaced.
std::string json_string(std::string_view text);

}  // namespace shardstream::report
