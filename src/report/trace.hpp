// A timeline as a trace for Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing): JSON in the
// Trace Event Format, with one process per rank and one thread per track.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/descriptor.hpp"
#include "io/output/part_file.hpp"

namespace shardstream::report {

/// Writes events immediately, so that its memory does not grow with the number of spans. Members
/// throw Error if the file cannot be written. publish() gives the file its final name.
class TraceFile {
 public:
  /// Reserves `bytes` bytes on disk. Throws the errors of io::PartFile.
  TraceFile(io::Destination destination, const std::string& run_uuid, std::uint64_t bytes);

  /// Must be called first. `alignment_error` is in seconds; `study` is the study that launched the
  /// run, or empty.
  void begin(double alignment_error, std::string_view study = {});
  void process(int rank, std::string_view name);
  void thread(int rank, std::uint32_t track, std::string_view name);
  /// A negative `batch` means that the span belongs to no batch.
  void span(int rank, std::uint32_t track, std::string_view name, std::int64_t batch,
            std::int64_t start_ns, std::int64_t dur_ns);
  /// Must be called last. Writes everything, but does not sync it to disk.
  void end();

  /// Syncs the file and gives it its final name.
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

/// The text by which a trace names its study.
std::string study_label(std::string_view study);

/// `text` as a JSON string, with its quotes. Bytes that are not UTF-8 are replaced.
std::string json_string(std::string_view text);

}  // namespace shardstream::report
