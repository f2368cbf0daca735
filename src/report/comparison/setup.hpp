// The setup of a run: options, versions, machine and plan. Two runs with the same computation may
// have different setups.
#pragma once

#include <map>
#include <set>
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
  /// The options whose values the calibration run of a study has set.
  std::set<std::string> calibrated;
  std::set<std::string> defaults;  ///< the options that nobody has set
};

/// Reads the setup from the file of the run. Throws UsageError like read_run_file().
Setup read_setup(const RunFile& run);

}  // namespace shardstream::report
