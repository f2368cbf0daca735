#include "report/trace.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "core/error.hpp"

namespace shardstream::report {
namespace {

constexpr std::size_t flush_bytes = std::size_t{1} << 20;

/// The format's microseconds, to the nanosecond. `ns` is not negative.
std::string microseconds(std::int64_t ns) {
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

}  // namespace

std::string json_string(std::string_view text) {
  using nlohmann::json;
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string study_label(std::string_view study) {
  return fmt::format(",\"study\":{}", json_string(study));
}

TraceFile::TraceFile(io::Destination destination, const std::string& run_uuid, std::uint64_t bytes)
    : part_(std::move(destination), run_uuid),
      run_uuid_(run_uuid),
      file_(part_.part_path(), O_WRONLY | O_NOFOLLOW) {
  part_.reserve(bytes);
  if (file_.valid()) return;
  throw Error(fmt::format("cannot open '{}' ({}): check its file system",
                          part_.part_path().string(), errno_text(errno)));
}

void TraceFile::begin(double alignment_error, std::string_view study) {
  buffer_ += io::trace_start;
  buffer_ += fmt::format("{}{},\"alignment_error_us\":{:.3f}}},\n\"traceEvents\":[\n",
                         json_string(run_uuid_), study.empty() ? "" : study_label(study),
                         alignment_error * 1e6);
}

void TraceFile::process(int rank, std::string_view name) {
  event(fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", rank,
                    json_string(name)));
  event(fmt::format(R"({{"ph":"M","pid":{0},"name":"process_sort_index",)"
                    R"("args":{{"sort_index":{0}}}}})",
                    rank));
}

void TraceFile::thread(int rank, std::uint32_t track, std::string_view name) {
  event(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})",
                    rank, track, json_string(name)));
  event(fmt::format(R"({{"ph":"M","pid":{0},"tid":{1},"name":"thread_sort_index",)"
                    R"("args":{{"sort_index":{1}}}}})",
                    rank, track));
}

void TraceFile::span(int rank, std::uint32_t track, std::string_view name, std::int64_t batch,
                     std::int64_t start_ns, std::int64_t dur_ns) {
  const std::string args = batch < 0 ? "" : fmt::format(R"(,"args":{{"batch":{}}})", batch);
  event(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"name":{},"ts":{},"dur":{}{}}})", rank, track,
                    json_string(name), microseconds(start_ns), microseconds(dur_ns), args));
}

void TraceFile::end() {
  buffer_ += "\n]}\n";
  flush();
}

void TraceFile::event(std::string_view text) {
  if (!first_) buffer_ += ",\n";
  first_ = false;
  buffer_ += text;
  if (buffer_.size() >= flush_bytes) flush();
}

void TraceFile::flush() {
  if (!file_.write_at(written_, std::as_bytes(std::span(buffer_)))) {
    throw Error(fmt::format("cannot write '{}' ({}): check that its disk is not full",
                            part_.part_path().string(), errno_text(errno)));
  }
  written_ += buffer_.size();
  buffer_.clear();
}

}  // namespace shardstream::report
