// The law that the options of a study's runs set, beside the law that is fitted to their times.
#pragma once

#include <optional>
#include <span>

#include "report/run_file.hpp"
#include "study/sizes.hpp"

namespace shardstream::report {

struct ConfiguredLaw {
  /// The serial share without noise, imbalance and overhead: s as a part of the run on the smallest
  /// size (strong), or s' (weak).
  double serial_share = 0;
  /// The serial share that a fit to the expected times gives. It is larger if noise, imbalance or
  /// overhead makes them longer.
  double expected_share = 0;
  study::Study expected;  ///< the expected times, as one launch at each size

  /// Whether the expected times are longer than those of the serial share alone.
  bool has_other_costs() const;
};

/// Nothing unless all runs have the metrics `predicted` and `serial_configured`, and there are two
/// sizes. `measured` has the sizes of the runs.
std::optional<ConfiguredLaw> configured_law(std::span<const RunFile> runs,
                                            const study::Study& measured);

}  // namespace shardstream::report
