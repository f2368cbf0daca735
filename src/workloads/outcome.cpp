#include "workloads/outcome.hpp"

namespace shardstream::workloads {

void invalidate(Outcome& outcome, const std::string& why) {
  outcome.verified = Verification::failed;
  outcome.verdict = why;
  for (Table& table : outcome.results) {
    for (std::size_t row = 0; row < table.rows().size(); ++row) {
      table.set(row, "validated", std::int64_t{0});
    }
  }
}

}  // namespace shardstream::workloads
