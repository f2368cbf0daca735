#include "cli/commands.hpp"
#include "comm/transport.hpp"
#include "io/hdf5/result_file.hpp"
#include "io/source/matrix.hpp"
#include "io/source/source.hpp"
#include "measure/sample.hpp"
#include "measure/telemetry.hpp"
#include "pipeline/pipeline_options.hpp"
#include "ranks/session.hpp"
#include "runtime/runtime.hpp"
#include "study/study_labels.hpp"
#include "workloads/registry.hpp"

namespace shardstream::cli {

OptionTable all_options() {
  std::vector<std::span<const OptionRow>> components = {workloads::run_options(),
                                                        io::input_options(), io::matrix_options()};
  const auto of_workloads = workloads::options();
  components.insert(components.end(), of_workloads.begin(), of_workloads.end());
  components.insert(components.end(),
                    {ranks::launch_options(), runtime::device_options(), comm::comm_options(),
                     pipeline::pipeline_options(), measure::measure_options(),
                     measure::telemetry_options(), io::output_options(), study::label_options()});
  return OptionTable(components);
}

}  // namespace shardstream::cli
