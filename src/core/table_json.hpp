// Tables as JSON, for whoever reads with a program.
#pragma once

#include <span>
#include <string>

#include "core/table.hpp"

namespace shardstream {

/// One JSON object, indented, its last line ended: NAME is the array of a table's rows, each an
/// object by column; "units" holds, by table and column, the units of those that have one. Numbers
/// that are not finite are null; bytes that are not UTF-8 are replaced. All of it is printable
/// ASCII. The tables' names differ.
std::string to_json(std::span<const Table> tables);

}  // namespace shardstream
