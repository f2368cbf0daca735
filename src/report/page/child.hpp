// Runs another program as a filter of bytes.
#pragma once

#include <string>
#include <vector>

namespace shardstream::report::page {

struct Output {
  bool started = false;  ///< false: PATH has no such program
  int code = 0;          ///< the exit code; 128 + N after signal N
  std::string out, err;
};

/// Runs `words` (a program in PATH and its arguments) with `input` as its standard input until it
/// ends. Kills it after `timeout` seconds. Throws Error if no process can be started.
Output filter(const std::vector<std::string>& words, const std::string& input, int timeout);

}  // namespace shardstream::report::page
