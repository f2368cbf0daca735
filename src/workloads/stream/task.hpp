// The Task of a workload that streams one source, with its run and its dry run, and the common
// parts of its Workload.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/options.hpp"
#include "io/source/source.hpp"
#include "measure/machine.hpp"
#include "types/element.hpp"
#include "workloads/stream/computation.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads::stream {

/// The keys of common sections that all these workloads take: Workload::honours.
std::vector<std::string_view> honoured_keys();

using CreateComputation = std::unique_ptr<Computation> (*)(const Options& options,
                                                           const io::Source& source);
/// Opens input.data. `options` must outlive the task. Throws UsageError.
std::unique_ptr<Task> open_task(const Options& options, CreateComputation create);

/// Opens a task that computes with C<T>(options, source), in which T is the type of the elements:
/// Workload::open. The constructor of C checks the options of the workload, and throws UsageError.
template <template <class> class C>
std::unique_ptr<Task> open(const Options& options) {
  return open_task(options, [](const Options& own, const io::Source& source) {
    return with_element_type(source.type(), [&](auto type) -> std::unique_ptr<Computation> {
      return std::make_unique<C<typename decltype(type)::type>>(own, source);
    });
  });
}

/// Task::predict(). The host memory of GPU nodes is unknown and not checked.
Prediction predict(const Options& options, const io::Source& source, Computation& computation,
                   measure::Machine& machine);

/// Multiplies the number of elements, in the first dimension if there are several:
/// Workload::scaled.
Scaled scaled(const Options& options, double factor, std::string_view grow);

}  // namespace shardstream::workloads::stream
