// Runs another program as a filter of bytes.
#pragma once

#include <string>
#include <vector>

namespace shardstream::process {

struct FilterOutput {
  bool started = false;  ///< false: PATH has no such program
  int code = 0;          ///< the exit code; 128 + N after signal N
  std::string out, err;
};

/// Runs `words` (a program in PATH and its arguments) with `input` as its standard input until it
/// ends. It gets no environment but PATH, LC_ALL=C and `environment` (NAME=value). Ends it after
/// `timeout` seconds. Throws Error if no process can be started.
FilterOutput filter(const std::vector<std::string>& words, const std::string& input, int timeout,
                    const std::vector<std::string>& environment = {});

}  // namespace shardstream::process
