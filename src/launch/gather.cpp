// Rows travel as binary cells, since JSON and decimal text have no NaN, no infinity or fewer
// digits.
#include "launch/gather.hpp"

#include <cstring>
#include <type_traits>
#include <utility>

namespace shardstream::launch {
namespace {

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Cell by cell: 8 bytes of a number; of a text its size in 8 bytes, and the text.
std::string packed(const Table& table) {
  std::string bytes;
  for (const Row& row : table.rows()) {
    for (const Cell& cell : row.cells()) {
      if (const auto* const text = std::get_if<std::string>(&cell)) {
        append(bytes, text->size());
        bytes += *text;
      } else {
        std::visit([&](const auto& number) { append(bytes, number); }, cell);
      }
    }
  }
  return bytes;
}

template <class T>
T taken(std::string_view& bytes) {
  static_assert(std::is_arithmetic_v<T>);
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

Cell take_cell(std::string_view& bytes, ColumnType type) {
  if (type == ColumnType::integer) return taken<std::int64_t>(bytes);
  if (type == ColumnType::real) return taken<double>(bytes);
  const auto size = taken<std::size_t>(bytes);
  std::string text(bytes.substr(0, size));
  bytes.remove_prefix(size);
  return text;
}

}  // namespace

Table gather(const Session& session, const Table& mine) {
  std::vector<Column> columns = mine.columns();
  columns.insert(columns.begin(), {"rank", ColumnType::integer});
  Table all(mine.name(), std::move(columns));
  std::int64_t rank = 0;
  for (const std::string& theirs : session.gather(packed(mine))) {
    for (std::string_view bytes = theirs; !bytes.empty();) {
      std::vector<Cell> row{rank};
      for (const Column& column : mine.columns()) row.push_back(take_cell(bytes, column.type));
      all.add(std::move(row));
    }
    ++rank;
  }
  return all;
}

}  // namespace shardstream::launch
