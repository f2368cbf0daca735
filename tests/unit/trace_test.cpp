// The trace as text. tests/e2e/timeline.py checks with a parser that all of it is JSON.
#include "report/trace.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "core/error.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::report {
namespace {

constexpr const char* uuid = "00000000-0000-4000-8000-000000000000";

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Trace, TextIsEscaped) {
  EXPECT_EQ(json_string(""), "\"\"");
  EXPECT_EQ(json_string("rank 0 (host, H100)"), "\"rank 0 (host, H100)\"");
  EXPECT_EQ(json_string("a\"b\\c/d"), "\"a\\\"b\\\\c/d\"");
  EXPECT_EQ(json_string(std::string_view("\n\t\0\x1f", 4)), "\"\\n\\t\\u0000\\u001f\"");
  EXPECT_EQ(json_string("µs"), "\"µs\"");
  EXPECT_EQ(json_string("a\xff"), "\"a\xef\xbf\xbd\"");  // U+FFFD, which parsers accept
}

TEST(Trace, FollowsTheFormat) {
  const test::TemporaryFolder folder;
  const auto path = folder / "x.trace.json";
  TraceFile trace({path, io::Contents::trace}, uuid, 1 << 16);
  trace.begin(12.3456e-6);
  trace.process(1, "rank 1");
  trace.thread(1, 2, "upload");
  trace.span(1, 2, "upload", 7, 1'234'567'005, 1002);
  trace.span(1, 0, "verify", -1, 0, 999'999);
  trace.end();
  EXPECT_FALSE(std::filesystem::exists(path));
  trace.publish();
  const std::string wanted = R"({"displayTimeUnit":"ms",
"otherData":{"run_uuid":"00000000-0000-4000-8000-000000000000","alignment_error_us":12.346},
"traceEvents":[
{"ph":"M","pid":1,"name":"process_name","args":{"name":"rank 1"}},
{"ph":"M","pid":1,"name":"process_sort_index","args":{"sort_index":1}},
{"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"upload"}},
{"ph":"M","pid":1,"tid":2,"name":"thread_sort_index","args":{"sort_index":2}},
{"ph":"X","pid":1,"tid":2,"name":"upload","ts":1234567.005,"dur":1.002,"args":{"batch":7}},
{"ph":"X","pid":1,"tid":0,"name":"verify","ts":0.000,"dur":999.999}
]}
)";
  EXPECT_EQ(contents(path), wanted);
}

TEST(Trace, LongTracesAreWrittenInPieces) {
  const test::TemporaryFolder folder;
  constexpr int spans = 50000;  // some 4 MB
  TraceFile trace({folder / "x.trace.json", io::Contents::trace}, uuid, 1 << 16);
  trace.begin(0);
  for (int i = 0; i < spans; ++i) trace.span(0, 0, "read", i, i, 1);
  trace.end();
  trace.publish();
  std::ifstream file(folder / "x.trace.json");
  std::string line;
  for (int i = 0; i < 3; ++i) std::getline(file, line);
  for (int i = 0; i < spans; ++i) {
    std::getline(file, line);
    const std::string number = std::to_string(i);
    ASSERT_NE(line.find("\"batch\":" + number + "}"), std::string::npos) << line;
    ASSERT_EQ(line.ends_with(","), i + 1 < spans) << line;
  }
  std::getline(file, line);
  EXPECT_EQ(line, "]}");
}

TEST(Trace, IsReplacedOnlyOnRequest) {
  const test::TemporaryFolder folder;
  const auto path = folder / "x.trace.json";
  std::ofstream(path) << "mine";
  const auto open = [&](io::Overwrite overwrite) {
    TraceFile({path, io::Contents::trace, overwrite}, uuid, 1 << 16);
  };
  EXPECT_THROW(open(io::Overwrite::never), UsageError);
  EXPECT_EQ(contents(path), "mine");
  EXPECT_THROW(open(io::Overwrite::own), UsageError);
  for (const auto overwrite : {io::Overwrite::anything, io::Overwrite::own}) {
    TraceFile trace({path, io::Contents::trace, overwrite}, uuid, 1 << 16);
    trace.begin(0);
    trace.end();
    trace.publish();
    EXPECT_NE(contents(path), "mine");
  }
}

TEST(Trace, IsRemovedUnlessPublished) {
  const test::TemporaryFolder folder;
  {
    TraceFile trace({folder / "x.trace.json", io::Contents::trace}, uuid, 1 << 16);
    trace.begin(0);
    trace.end();
    EXPECT_FALSE(std::filesystem::is_empty(folder.path()));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace shardstream::report
