// How a run was made: options, versions, machine and plan. These may differ between two runs that
// compute the same.
#pragma once

#include <map>
#include <string>

#include "report/run_file.hpp"

namespace shardstream::report {

/// Values by name; empty values are left out.
using Values = std::map<std::string, std::string>;

struct Setup {
  Values options;   ///< /config, without names of outputs and labels of studies
  Values versions;  ///< the commit, how it was built, and libraries
  Values machine;   ///< hosts, devices, driver, operating system, network
  Values plan;      ///< chosen by the program: resolved options, decomposition, tiles
};

/// Reads it from the run's file. Throws UsageError as read_run_file() does.
Setup read_setup(const RunFile& run);

}  // namespace shardstream::report
