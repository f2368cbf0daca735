#include "report/configured_law.hpp"

#include <algorithm>
#include <cmath>

#include "study/laws/amdahl.hpp"
#include "study/laws/gustafson.hpp"

namespace shardstream::report {

std::optional<ConfiguredLaw> configured_law(std::span<const RunFile> runs,
                                            const study::Study& measured) {
  std::vector<study::MeasuredLaunch> launches;
  double share = 0;  // of the work of the smallest size
  for (const study::Size& size : measured.sizes) {
    for (const RunFile& run : runs) {
      if (run.size.ranks != static_cast<std::uint64_t>(size.ranks)) continue;
      const study::MeasuredLaunch launch{size.ranks, run.number("predicted"), size.work};
      const double serial = run.number("serial_configured");
      if (!(serial >= 0 && serial <= 1) || study::why_invalid(launch)) return {};
      if (!launches.empty() && launches.back().ranks == size.ranks) continue;
      if (launches.empty()) share = serial;
      launches.push_back(launch);
    }
  }
  if (launches.size() < 2) return {};
  ConfiguredLaw law;
  law.expected = study::tabulate(measured.mode, launches);
  if (const auto amdahl = study::fit_amdahl(law.expected)) {
    law.serial_share = study::share_of_reference(share, 1.0 / measured.anchor);
    law.expected_share = amdahl->serial_share.value;
  } else if (const auto gustafson = study::fit_gustafson(law.expected)) {
    law.serial_share = share;
    law.expected_share = gustafson->serial_share.value;
  }
  return law;
}

bool ConfiguredLaw::has_other_costs() const {
  constexpr double relevant = 0.0005;
  return std::abs(expected_share - serial_share) >= relevant;
}

}  // namespace shardstream::report
