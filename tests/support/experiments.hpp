// Experiments for tests, and a run of `bench` with them in the ranks of an MPI test program.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "experiments/bench_session.hpp"
#include "experiments/experiment.hpp"
#include "report/experiments.hpp"
#include "support/session.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::test {

/// An experiment that calls `measure`, on a GPU and on a host.
inline experiments::Experiment experiment(const char* name, Table (*measure)(experiments::Bench&)) {
  return {.name = name,
          .group = "tests",
          .summary = "A test.",
          .explanation = {.question = "", .varies = "", .expectation = ""},
          .read_on = {},
          .figure = {.look = experiments::Look::bars, .x = "case", .y = "rate"},
          .run = measure,
          .run_host = measure};
}

/// The end of a run of `bench`.
struct BenchEnd {
  ExitCode code;
  std::map<std::string, report::ExperimentResult> results;  ///< by name; only on rank 0
  std::string warnings;                                     ///< standard error of this rank
};

/// Runs experiments with these options, and reads the file that they write. Collective.
inline BenchEnd run_bench(const std::vector<experiments::Experiment>& experiments,
                          const std::map<std::string, std::string>& options = {}) {
  const TemporaryFolder folder;
  const std::string path = session().broadcast(folder / "bench.h5");
  const char* const environment[] = {nullptr};
  CommandLine line;
  line.values.insert(options.begin(), options.end());
  line.values["output.file"] = path;
  const Options resolved = cli::bench_table().resolve(line, environment, std::nullopt);
  std::vector<const experiments::Experiment*> selected;
  for (const experiments::Experiment& each : experiments) selected.push_back(&each);
  Log log;
  testing::internal::CaptureStderr();
  BenchEnd end{experiments::run_experiments(
                   session(), resolved, log,
                   {.experiments = selected, .quick = true, .command_line = "test"}),
               {},
               {}};
  end.warnings = testing::internal::GetCapturedStderr();
  if (session().rank() != 0) return end;
  const io::ResultReader file(path);
  for (auto& each : report::read_bench_file(file, path).experiments) end.results[each.name] = each;
  return end;
}

}  // namespace shardstream::test
