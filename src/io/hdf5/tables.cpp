#include "io/hdf5/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/shard.hpp"
#include "core/text.hpp"
#include "core/utf8.hpp"
#include "io/hdf5/dimension_scales.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

/// Limits above the size of any table of a result, which fits into memory, and of its texts, such
/// as the list of a rank's CPUs.
constexpr std::size_t max_rows = std::size_t{1} << 20, max_cell_text = 4096;
/// Limits of the memory for a table, and for one of its chunks, which HDF5 reads as a whole. A file
/// of a few kilobytes may declare any size.
constexpr std::uint64_t max_bytes = std::uint64_t{512} << 20, max_chunk_bytes = 64 << 20;

bool is_ascii(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; });
}

/// One field of the records.
struct Field {
  std::string name, unit;
  hdf5::Type type;
  std::size_t offset, size;
};

hdf5::Type text_type(const Table& table, const std::string& column, std::size_t size) {
  const bool ascii = std::ranges::all_of(
      table.rows(), [&](const Row& row) { return is_ascii(row.get<std::string>(column)); });
  hdf5::Type type(H5Tcopy(H5T_C_S1), "cannot make a string type");
  check(H5Tset_size(type.get(), size), "cannot size a string type");
  check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), "cannot pad a string type");
  check(H5Tset_cset(type.get(), ascii ? H5T_CSET_ASCII : H5T_CSET_UTF8),
        "cannot set a string type");
  return type;
}

/// The size of a string type, at least one byte, since HDF5 has no empty strings.
std::size_t longest_text(const Table& table, const std::string& column) {
  std::size_t size = 1;
  for (const Row& row : table.rows()) {
    size = std::max(size, as_utf8(row.get<std::string>(column)).size());
  }
  return size;
}

std::vector<Field> fields_of(const Table& table) {
  std::vector<Field> fields;
  std::size_t offset = 0;
  for (const Column& column : table.columns()) {
    Field field{column.name, column.unit, {}, offset, 8};
    switch (column.type) {
      case ColumnType::integer:
        field.type = hdf5::Type(H5Tcopy(H5T_STD_I64LE));
        break;
      case ColumnType::real:
        field.type = hdf5::Type(H5Tcopy(H5T_IEEE_F64LE));
        break;
      case ColumnType::text:
        field.size = longest_text(table, column.name);
        field.type = text_type(table, column.name, field.size);
    }
    offset += field.size;
    fields.push_back(std::move(field));
  }
  return fields;
}

hdf5::Type record_type(const std::vector<Field>& fields) {
  const std::size_t size = fields.back().offset + fields.back().size;
  hdf5::Type record(H5Tcreate(H5T_COMPOUND, size), "cannot make a record type");
  for (const auto& field : fields) {
    check(H5Tinsert(record.get(), field.name.c_str(), field.offset, field.type.get()),
          fmt::format("cannot make the field '{}'", field.name));
  }
  return record;
}

void put(const Cell& cell, std::byte* out) {
  std::visit(
      [out](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
          const std::string text = as_utf8(value);
          std::memcpy(out, text.data(), text.size());
        } else {
          static_assert(sizeof value == 8);
          std::memcpy(out, &value, sizeof value);
        }
      },
      cell);
}

std::vector<std::byte> records(const Table& table, const std::vector<Field>& fields) {
  const std::size_t size = fields.back().offset + fields.back().size;
  std::vector<std::byte> bytes(size * table.rows().size());  // zero: the padding of strings
  std::byte* record = bytes.data();
  for (const Row& row : table.rows()) {
    for (std::size_t f = 0; f < fields.size(); ++f) put(row.cells()[f], record + fields[f].offset);
    record += size;
  }
  return bytes;
}

/// PyTables can only read chunked tables. A chunk has about 64 KiB of records.
hdf5::Properties chunked(std::size_t record, std::size_t rows) {
  const hsize_t chunk = std::clamp<std::size_t>(rows, 1, std::max<std::size_t>(65'536 / record, 1));
  hdf5::Properties creation(H5Pcreate(H5P_DATASET_CREATE), "cannot make data set properties");
  check(H5Pset_chunk(creation.get(), 1, &chunk), "cannot set a table's chunks");
  return creation;
}

/// Without a chunk cache, records are written to the file at once. So on a full disk the write
/// itself fails, not a later flush, which may not report it.
hdf5::Properties uncached() {
  hdf5::Properties access(H5Pcreate(H5P_DATASET_ACCESS), "cannot make data set properties");
  check(H5Pset_chunk_cache(access.get(), 0, 0, 1.0), "cannot turn the chunk cache off");
  return access;
}

void write_layout_attributes(hid_t dataset, const Table& table, const std::vector<Field>& fields) {
  make_extent_only(dataset, table.rows().size());
  hdf5::write_fixed_attribute(dataset, "VERSION", "3.0");
  hdf5::write_fixed_attribute(dataset, "TITLE", table.name());
  hdf5::write_attribute(dataset, "NROWS", static_cast<std::int64_t>(table.rows().size()));
  for (std::size_t f = 0; f < fields.size(); ++f) {
    hdf5::write_fixed_attribute(dataset, fmt::format("FIELD_{}_NAME", f), fields[f].name);
    if (fields[f].unit.empty()) continue;
    hdf5::write_attribute(dataset, "units_" + fields[f].name, fields[f].unit);
  }
}

bool is_stored_as(hid_t stored, ColumnType type) {
  switch (type) {
    case ColumnType::integer:
      return H5Tget_class(stored) == H5T_INTEGER;
    case ColumnType::real:
      return H5Tget_class(stored) == H5T_FLOAT;
    case ColumnType::text:
      return H5Tget_class(stored) == H5T_STRING && H5Tis_variable_str(stored) == 0;
  }
  return false;
}

std::string_view word_of(ColumnType type) {
  return type == ColumnType::integer ? "integers"
         : type == ColumnType::real  ? "floating-point numbers"
                                     : "texts of fixed length";
}

/// The columns of stored records as packed fields in memory, in this machine's number formats.
std::vector<Field> stored_fields(hid_t record, const std::string& name,
                                 const std::vector<Column>& columns) {
  std::vector<Field> fields;
  std::size_t offset = 0;
  for (const Column& column : columns) {
    const int member = H5Tget_member_index(record, column.name.c_str());
    if (member < 0) throw Error(fmt::format("the table {} has no column {}", name, column.name));
    hdf5::Type stored(H5Tget_member_type(record, static_cast<unsigned>(member)),
                      "cannot read a column's type");
    if (!is_stored_as(stored.get(), column.type)) {
      throw Error(fmt::format("the column {} of the table {} does not hold {}", column.name, name,
                              word_of(column.type)));
    }
    Field field{column.name, {}, {}, offset, 8};
    if (column.type == ColumnType::text) {
      field.size = H5Tget_size(stored.get());
      field.type = std::move(stored);
    } else {
      const bool is_integer = column.type == ColumnType::integer;
      field.type = hdf5::Type(H5Tcopy(is_integer ? H5T_NATIVE_INT64 : H5T_NATIVE_DOUBLE));
    }
    if (field.size == 0 || field.size > max_cell_text) {
      throw Error(fmt::format("the column {} of the table {} has texts of {} bytes", column.name,
                              name, field.size));
    }
    offset += field.size;
    fields.push_back(std::move(field));
  }
  return fields;
}

Cell cell_of(const Column& column, const Field& field, const std::byte* bytes) {
  if (column.type == ColumnType::text) {
    const auto* const text = reinterpret_cast<const char*>(bytes);
    return std::string(text, std::find(text, text + field.size, '\0'));
  }
  std::int64_t integer = 0;
  double real = 0;
  std::memcpy(&integer, bytes, sizeof integer);
  std::memcpy(&real, bytes, sizeof real);
  return column.type == ColumnType::integer ? Cell(integer) : Cell(real);
}

/// Throws Error if the chunks of a table are larger than those of any table of this program.
void expect_small_chunks(const hdf5::Dataset& dataset, hid_t stored, const std::string& what) {
  const hdf5::Properties creation(H5Dget_create_plist(dataset.get()), what);
  if (H5Pget_layout(creation.get()) != H5D_CHUNKED) return;
  hsize_t rows = 0;
  check(H5Pget_chunk(creation.get(), 1, &rows), what);
  if (saturating_product(rows, H5Tget_size(stored)) > max_chunk_bytes) {
    throw Error(fmt::format("{}: its chunks are too large, with {} rows", what, rows));
  }
}

}  // namespace

void write_table(hid_t group, const Table& table) {
  expect(!table.columns().empty(), "a table that is stored has a column");
  const auto what = fmt::format("cannot write the table '{}'", table.name());
  const auto fields = fields_of(table);
  const auto record = record_type(fields);
  const hsize_t rows = table.rows().size();
  const hdf5::Space space(H5Screate_simple(1, &rows, nullptr), what);
  const auto creation = chunked(H5Tget_size(record.get()), rows);
  const auto access = uncached();
  hdf5::Dataset dataset(H5Dcreate2(group, table.name().c_str(), record.get(), space.get(),
                                   H5P_DEFAULT, creation.get(), access.get()),
                        what);
  const auto bytes = records(table, fields);
  if (rows > 0) {
    check(H5Dwrite(dataset.get(), record.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), what);
  }
  write_layout_attributes(dataset.get(), table, fields);
  check(dataset.close(), what);
}

void read_rows(const hdf5::Dataset& dataset, const std::string& name,
               const std::vector<Column>& columns,
               const std::function<void(std::span<const Cell>)>& take) {
  const std::string what = fmt::format("cannot read the table {}", name);
  const hdf5::Type stored(H5Dget_type(dataset.get()), what);
  if (H5Tget_class(stored.get()) != H5T_COMPOUND) throw Error(what + ": it has no records");
  const std::vector<Field> fields = stored_fields(stored.get(), name, columns);
  const hdf5::Type record = record_type(fields);
  const hdf5::Space space(H5Dget_space(dataset.get()), what);
  if (H5Sget_simple_extent_ndims(space.get()) != 1) throw Error(what + ": it is no list of rows");
  const auto rows =
      static_cast<std::size_t>(check(H5Sget_simple_extent_npoints(space.get()), what));
  const std::size_t size = H5Tget_size(record.get());
  if (rows > max_rows || rows * size > max_bytes) {
    throw Error(fmt::format("{}: it is too large, with {} rows of {} bytes", what, rows, size));
  }
  expect_small_chunks(dataset, stored.get(), what);
  std::vector<std::byte> bytes(rows * size);
  if (rows > 0) {
    check(H5Dread(dataset.get(), record.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), what);
  }
  std::vector<Cell> cells(fields.size());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      cells[f] = cell_of(columns[f], fields[f], bytes.data() + row * size + fields[f].offset);
    }
    take(cells);
  }
}

Table read_table(const hdf5::Dataset& dataset, const std::string& name,
                 const std::vector<Column>& columns) {
  Table table(hdf5::read_text_attribute(dataset.get(), "TITLE"), columns);
  read_rows(dataset, name, columns, [&](std::span<const Cell> cells) {
    table.add({cells.begin(), cells.end()});
  });
  return table;
}

std::vector<Column> columns_of(const hdf5::Dataset& dataset, const std::string& name) {
  constexpr int max_columns = 64;
  const std::string what = fmt::format("cannot read the columns of the table {}", name);
  const hdf5::Type stored(H5Dget_type(dataset.get()), what);
  if (H5Tget_class(stored.get()) != H5T_COMPOUND) throw Error(what + ": it has no records");
  const int members = H5Tget_nmembers(stored.get());
  if (members < 1 || members > max_columns) {
    throw Error(fmt::format("{}: it has {} columns", what, members));
  }
  std::vector<Column> columns;
  for (unsigned member = 0; member < static_cast<unsigned>(members); ++member) {
    char* const text = H5Tget_member_name(stored.get(), member);
    if (text == nullptr) throw Error(what);
    const std::string column = text;
    H5free_memory(text);
    if (!is_identifier(column)) {
      throw Error(fmt::format("{}: the name {} is not an identifier", what, excerpt(column)));
    }
    const hdf5::Type type(H5Tget_member_type(stored.get(), member), what);
    ColumnType kind = ColumnType::text;
    for (const ColumnType candidate : {ColumnType::integer, ColumnType::real}) {
      if (is_stored_as(type.get(), candidate)) kind = candidate;
    }
    columns.push_back({column, kind, hdf5::read_text_attribute(dataset.get(), "units_" + column)});
  }
  return columns;
}

}  // namespace shardstream::io
