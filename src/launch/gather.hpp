// How ranks share tables. Vectors of plain structs are shared by Session::gather().
#pragma once

#include "core/table.hpp"
#include "launch/session.hpp"

namespace shardstream::launch {

/// The rows of all ranks' tables in rank order, the same on every rank; the first column is `rank`.
/// Every cell arrives bit for bit. All ranks' tables have the same columns. Collective.
Table gather(const Session& session, const Table& mine);

}  // namespace shardstream::launch
