#include "workloads/product/data/check_summary.hpp"

#include <algorithm>

namespace shardstream::workloads::product {

void CheckSummary::add(const FinishedTile& tile) {
  worst = std::max(worst, tile.worst);
  detection_threshold = std::max(detection_threshold, tile.detection_threshold);
  unchecked += tile.unchecked;
  checksum += tile.weighted;
  constant += tile.constant;
  overflowed += tile.overflowed;
  infinite += tile.infinite;
  squares.push_back({tile.tile, tile.squares});
}

}  // namespace shardstream::workloads::product
