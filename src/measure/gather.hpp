// Rows of the result file from all ranks.
#pragma once

#include <vector>

#include "ranks/session.hpp"
#include "result/columns.hpp"

namespace shardstream::measure {

/// The records of all ranks in rank order, the same on every rank. Collective.
template <class Record>
std::vector<Record> gather(const ranks::Session& session, const std::vector<Record>& mine) {
  return result::records_of<Record>(ranks::concatenate(session, result::table_of(mine)));
}

}  // namespace shardstream::measure
