#include "core/log.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace shardstream {
namespace {

/// A stream that is read back from its file, so that text that was not flushed is missing.
class LogFile {
 public:
  LogFile() : file_(std::tmpfile()) { setvbuf(file_, nullptr, _IOFBF, 1 << 20); }
  ~LogFile() { std::fclose(file_); }
  LogFile(const LogFile&) = delete;
  LogFile(LogFile&&) = delete;
  LogFile& operator=(const LogFile&) = delete;
  LogFile& operator=(LogFile&&) = delete;

  std::FILE* get() const { return file_; }

  std::string text() const {
    const std::string path = "/proc/self/fd/" + std::to_string(fileno(file_));
    std::FILE* reader = std::fopen(path.c_str(), "r");
    std::string text;
    for (int c = std::fgetc(reader); c != EOF; c = std::fgetc(reader)) text += static_cast<char>(c);
    std::fclose(reader);
    return text;
  }

 private:
  std::FILE* file_;
};

TEST(Log, WritesPrefixKindAndLineAtOnce) {
  LogFile file;
  Log log("rank 3", file.get());
  log.info("bound to GPU 1");
  log.warn("{} braces are nothing special");
  log.error("gone");
  EXPECT_EQ(file.text(),
            "rank 3: bound to GPU 1\n"
            "rank 3: warning: {} braces are nothing special\n"
            "rank 3: error: gone\n");
}

TEST(Log, WithoutPrefixWritesTheLineAlone) {
  LogFile file;
  Log log("", file.get());
  log.info("hello");
  log.warn("hm");
  EXPECT_EQ(file.text(), "hello\nwarning: hm\n");
}

TEST(Log, EscapesControlCharacters) {
  LogFile file;
  Log log("", file.get());
  log.error("file '\x1b[31m\nerror: \xff'");
  EXPECT_EQ(file.text(), "error: file '\\x1b[31m\\x0aerror: \\xff'\n");
}

TEST(Log, WritesTheDetailsOfAWarningAfterIt) {
  LogFile file;
  Log log("rank 3", file.get());
  log.warn("slow", {"link: 1 GB/s", "a\nb"});
  EXPECT_EQ(file.text(),
            "rank 3: warning: slow\n"
            "rank 3:   link: 1 GB/s\n"
            "rank 3:   a\\x0ab\n");
  EXPECT_EQ(log.warnings(), std::vector<std::string>{"slow"});
}

TEST(Log, RemembersItsWarnings) {
  LogFile file;
  Log log("rank 3", file.get());
  EXPECT_TRUE(log.warnings().empty());
  log.warn("first");
  log.info("no warning");
  log.error("neither");
  log.warn("second");
  EXPECT_EQ(log.warnings(), (std::vector<std::string>{"first", "second"}));
}

TEST(Log, KeepsLinesOfThreadsWhole) {
  LogFile file;
  Log log("r", file.get());
  std::vector<std::thread> threads;
  for (const char letter : {'a', 'b', 'c', 'd'}) {
    threads.emplace_back([&log, letter] {
      for (int i = 0; i < 200; ++i) log.info(std::string(100, letter));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::istringstream lines(file.text());
  std::multiset<std::string> seen;
  for (std::string line; std::getline(lines, line);) seen.insert(line);
  EXPECT_EQ(seen.size(), 800u);
  for (const char letter : {'a', 'b', 'c', 'd'}) {
    EXPECT_EQ(seen.count("r: " + std::string(100, letter)), 200u);
  }
}

}  // namespace
}  // namespace shardstream
