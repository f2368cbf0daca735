#include "core/table_json.hpp"

#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace shardstream {
namespace {

using Json = nlohmann::ordered_json;  // columns keep their order

Json rows_of(const Table& table) {
  Json rows = Json::array();
  for (const Row& row : table.rows()) {
    Json object = Json::object();
    for (const auto& [name, type, unit] : table.columns()) {
      std::visit([&field = object[name]](const auto& value) { field = value; }, row[name]);
    }
    rows.push_back(std::move(object));
  }
  return rows;
}

}  // namespace

std::string to_json(std::span<const Table> tables) {
  Json all = Json::object(), units = Json::object();
  for (const Table& table : tables) {
    expect(!all.contains(table.name()) && table.name() != "units", "the tables' names differ");
    all[table.name()] = rows_of(table);
    for (const Column& column : table.columns()) {
      if (!column.unit.empty()) units[table.name()][column.name] = column.unit;
    }
  }
  all["units"] = std::move(units);
  return all.dump(2, ' ', true, Json::error_handler_t::replace) + '\n';
}

}  // namespace shardstream
