// Another program as a filter: bytes go in, bytes come out.
#pragma once

#include <string>
#include <vector>

namespace shardstream::report::page {

struct Output {
  bool started = false;  ///< false: PATH has no such program
  int code = 0;          ///< the exit code; 128 + N after signal N
  std::string out, err;
};

/// Runs `words` (a program of PATH and its arguments) with `input` as its standard input, until it
/// ends. After `timeout` seconds it is killed. Throws Error if no process can be made.
Output filter(const std::vector<std::string>& words, const std::string& input, int timeout);

}  // namespace shardstream::report::page
