// A member of a compound type in a format that HDF5 converts, read by several threads: they use
// HDF5, which is not thread-safe, only under its lock.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "core/parallel.hpp"
#include "io/source/dataset/planned_source.hpp"
#include "support/hdf5_inputs.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::io {
namespace {

struct Row {
  std::int16_t narrow, plain;
};

/// A table whose member `narrow` has 12 bits.
hdf5::Type table_type() {
  const hdf5::Type narrow(H5Tcopy(H5T_STD_I16LE), "type");
  H5Tset_precision(narrow.get(), 12);
  hdf5::Type table(H5Tcreate(H5T_COMPOUND, sizeof(Row)), "type");
  H5Tinsert(table.get(), "narrow", HOFFSET(Row, narrow), narrow.get());
  H5Tinsert(table.get(), "plain", HOFFSET(Row, plain), H5T_STD_I16LE);
  return table;
}

TEST(Members, OfForeignFormatsAreReadByManyThreads) {
  constexpr std::uint64_t count = 40'000, piece = 500;
  const test::TemporaryFolder folder;
  const std::string file = folder / "table.h5";
  std::vector<Row> rows;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto value = static_cast<std::int16_t>(i % 4000 - 2000);
    rows.push_back({static_cast<std::int16_t>(value & 0xfff), value});
  }
  {
    const hdf5::Lock lock;
    const hdf5::Type type = table_type();
    test::make_dataset(test::make_file(file), "t", type.get(), {{count}, {700}}, type.get(),
                       rows.data());
  }
  for (const ReadWay way : {ReadWay::automatic, ReadWay::by_library}) {
    const auto source = open_dataset_source(file, "/t{narrow}", {.way = way});
    ASSERT_EQ(source->type(), ElementType::i32);
    std::vector<std::int32_t> values(count);
    parallel_for(count / piece, 8, [&](std::uint64_t i) {
      source->read(i * piece, piece, reinterpret_cast<std::byte*>(values.data() + i * piece));
    });
    for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(values[i], rows[i].plain) << i;
  }
}

}  // namespace
}  // namespace shardstream::io
