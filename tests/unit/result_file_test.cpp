// Result files and generated data: their contents, other programs that read them, disk space.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "io/hdf5/dimensions.hpp"
#include "io/output/dataset_file.hpp"
#include "io/source/source.hpp"
#include "kernels/data/generate.hpp"
#include "support/errors.hpp"
#include "support/hdf5_inputs.hpp"
#include "support/lowered_limit.hpp"
#include "support/result_files.hpp"

namespace shardstream::io {
namespace {

using test::counting;
using test::error_of;
using test::names;

Table phases() {
  Table table("phases", {{"phase", ColumnType::text, ""},
                         {"calls", ColumnType::integer, ""},
                         {"host", ColumnType::real, "s"}});
  table.add({std::string("upload"), std::int64_t{1} << 40, 0.25});
  table.add({std::string("réduce"), std::int64_t{-3}, std::numeric_limits<double>::infinity()});
  table.add({std::string(""), std::int64_t{0}, -0.0});
  return table;
}

// ---------------------------------------------------------------- contents

TEST_F(ResultFiles, IdentifyThemselves) {
  publish_one();
  EXPECT_EQ(root_text(file_, "schema"), "shardstream");
  EXPECT_EQ(root_text(file_, "run_uuid"), uuid);
  EXPECT_EQ(root_text(file_, "status"), "complete");
  const auto created = root_text(file_, "created_utc");
  ASSERT_EQ(created.size(), 20u);
  EXPECT_EQ(created[10], 'T');
  EXPECT_EQ(created.back(), 'Z');
  EXPECT_EQ(entries(), 1u);
}

/// The next run replaces a result that has failed its verification, and may resume from its part
/// file.
TEST_F(ResultFiles, MayBePublishedAsUnverified) {
  const std::string others[] = {"11111111-1111-4111-8111-111111111111",
                                "22222222-2222-4222-8222-222222222222"};
  for (const std::string& other : others) {
    ResultFile result(file_, Overwrite::never, other, 1 << 20);
    result.keep();
    result.publish("unverified");
    EXPECT_EQ(root_text(file_, "status"), "unverified");
    EXPECT_EQ(root_text(file_, "run_uuid"), other);
    EXPECT_TRUE(names(error_of([&] { ResultReader{file_}; }), file_, "unverified"));
    EXPECT_TRUE(std::filesystem::equivalent(file_, part_path_of(file_, other)));
    EXPECT_EQ(entries(), 2u);
  }
  publish_one();
  EXPECT_EQ(root_text(file_, "status"), "complete");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(ResultFiles, ReleaseUnusedDiskSpace) {
  ResultFile(file_, Overwrite::never, uuid, 64 << 20).publish();
  struct stat status {};
  ASSERT_EQ(::stat(file_.c_str(), &status), 0);
  EXPECT_LT(status.st_size, 64 << 10);
  EXPECT_LT(status.st_blocks * 512, 1 << 20);
}

TEST_F(ResultFiles, AcceptAttributesOfAnyLengthAndTwice) {
  const std::string script(200'000, 'x');
  {
    ResultFile result(file_, Overwrite::never, uuid, 1 << 20);
    result.attribute("/", "answer", std::int64_t{41});
    result.attribute("/", "answer", std::int64_t{42});
    result.attribute("/provenance/job", "script", script);
    result.attribute("/provenance/job", "cpus", std::vector<std::int64_t>{3, 1, 2});
    result.attribute("/provenance/job", "none", std::vector<std::int64_t>{});
    result.attribute("provenance", "load", 0.5);
    result.publish();
  }
  const hdf5::Lock lock;
  const hdf5::File file(H5Fopen(file_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const hdf5::Object job(H5Oopen(file.get(), "/provenance/job", H5P_DEFAULT));
  EXPECT_EQ(hdf5::read_text_attribute(job.get(), "script"), script);
  std::int64_t answer = 0, cpus[3] = {};
  hdf5::Attribute number(H5Aopen_by_name(file.get(), "/", "answer", H5P_DEFAULT, H5P_DEFAULT));
  hdf5::check(H5Aread(number.get(), H5T_NATIVE_INT64, &answer), "read");
  EXPECT_EQ(answer, 42);
  hdf5::Attribute list(H5Aopen(job.get(), "cpus", H5P_DEFAULT));
  hdf5::check(H5Aread(list.get(), H5T_NATIVE_INT64, cpus), "read");
  EXPECT_EQ(cpus[1], 1);
}

TEST_F(ResultFiles, KeepTablesAsFlatRecords) {
  {
    ResultFile result(file_, Overwrite::never, uuid, 1 << 20);
    result.table("/timing", phases());
    result.publish();
  }
#pragma pack(push, 1)
  struct Record {
    char phase[7];  // the longest text, with é in two bytes
    std::int64_t calls;
    double host;
  } rows[3];
#pragma pack(pop)
  const hdf5::Lock lock;
  const hdf5::File file(H5Fopen(file_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  const hdf5::Dataset dataset(H5Dopen2(file.get(), "/timing/phases", H5P_DEFAULT), "open");
  const hdf5::Type type(H5Dget_type(dataset.get()));
  ASSERT_EQ(H5Tget_size(type.get()), sizeof(Record));
  hdf5::check(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, rows), "read");
  EXPECT_EQ(std::string(rows[0].phase, 7), std::string("upload\0", 7));
  EXPECT_EQ(std::string(rows[1].phase, 7), "réduce");
  EXPECT_EQ(std::string(rows[2].phase, 7), std::string(7, '\0'));
  const std::int64_t calls = rows[0].calls;  // copies, since packed fields can't be referred to
  const double host = rows[1].host;
  EXPECT_EQ(calls, std::int64_t{1} << 40);
  EXPECT_EQ(host, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(is_dimension_scale(dataset.get()) && is_extent_only(dataset.get()));
  EXPECT_EQ(hdf5::read_text_attribute(dataset.get(), "FIELD_2_NAME"), "host");
  EXPECT_EQ(hdf5::read_text_attribute(dataset.get(), "units_host"), "s");
  EXPECT_EQ(H5Aexists(dataset.get(), "units_calls"), 0);
}

TEST_F(ResultFiles, RoundTripTables) {
  ResultFile(file_, Overwrite::never, uuid, 1 << 20).publish("partial");
  EXPECT_TRUE(names(error_of([&] { ResultReader{file_}; }), file_));
  {
    ResultFile result(file_, Overwrite::never, uuid, 1 << 20);
    result.table("/timing", phases());
    result.table("/", Table("nothing", {{"i", ColumnType::integer}}));
    result.attribute("/input/a", "type", std::string("f32"));
    result.attribute("/config", "ranks", std::int64_t{1} << 40);
    result.publish();
  }
  const ResultReader reader(file_);
  std::filesystem::remove(file_);  // the reader keeps it open
  EXPECT_EQ(reader.integer("/config", "ranks"), std::int64_t{1} << 40);
  EXPECT_EQ(reader.integer("/config", "work_total"), std::nullopt);
  EXPECT_EQ(reader.integer("/no/such", "ranks"), std::nullopt);
  EXPECT_EQ(reader.text("/config", "ranks"), "");
  EXPECT_EQ(reader.integer("/input/a", "type"), std::nullopt);
  EXPECT_EQ(reader.text("/input/a", "type"), "f32");
  EXPECT_EQ(reader.text("/input/a", "shape"), "");
  EXPECT_EQ(reader.text("/input/b", "type"), "");
  EXPECT_EQ(reader.text("/no/such", "type"), "");
  EXPECT_EQ(reader.text("/", "status"), "complete");
  const Table back = reader.table("/timing/phases", phases().columns());
  EXPECT_EQ(back.name(), "phases");
  EXPECT_EQ(to_text(back), to_text(phases()));
  ASSERT_EQ(back.columns().size(), 3U);
  EXPECT_EQ(back.columns()[2].name, "host");
  EXPECT_EQ(back.columns()[2].type, ColumnType::real);
  EXPECT_TRUE(reader.table("/nothing", {{"i", ColumnType::integer}}).rows().empty());

  EXPECT_TRUE(names(error_of([&] { reader.table("/ceilings", phases().columns()); }), "ceilings"));
  EXPECT_TRUE(names(error_of([&] { ResultReader("/no/such.h5"); }), "/no/such.h5",
                    "No such file or directory"));
  const std::filesystem::path other = folder_ / "other.h5";
  hdf5::Lock lock;
  hdf5::File(H5Fcreate(other.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)).close();
  EXPECT_TRUE(names(error_of([&] { ResultReader{other}; }), other.string(), "result"));
}

/// Reads the file with other libraries. The script fails unless it finds the written values.
constexpr const char* result_reader = R"(
import sys, h5py, numpy, pandas, tables
name = sys.argv[1]
with h5py.File(name) as f:
    assert f.attrs['status'] == 'complete' and f.attrs['schema_version'] == 1
    assert f['/config'].attrs['text'] == 'a b' and list(f['/config'].attrs['list']) == [1, 2]
    t = f['/timing/phases']
    assert t.dtype.names == ('phase', 'calls', 'host') and t.shape == (3,)
    assert t['phase'][0] == b'upload' and t['calls'][1] == -3 and numpy.isinf(t['host'][1])
    assert t.attrs['units_host'] == 's'
    assert f['/timing/nothing'].shape == (0,)
    assert len(f['/timing/many']) == 100000 and f['/timing/many']['i'][99999] == 99999
d = pandas.read_hdf(name, '/timing/phases')
assert list(d.columns) == ['phase', 'calls', 'host'] and len(d) == 3 and d['calls'][0] == 2**40
assert d['phase'][0] in ('upload', b'upload') and d['host'][0] == 0.25
assert len(pandas.read_hdf(name, '/timing/nothing')) == 0
assert pandas.read_hdf(name, '/timing/many')['i'].sum() == 100000 * 99999 // 2
with tables.open_file(name) as f:
    t = f.get_node('/timing/phases')
    assert isinstance(t, tables.Table) and t.nrows == 3 and t[2]['calls'] == 0
    assert t.read_where('calls > 5')['phase'][0] == b'upload'
    assert f.get_node('/timing/nothing').nrows == 0 and t.attrs.units_host == 's'
)";

TEST_F(ResultFiles, OpenInH5pyPandasAndPytables) {
  const std::string python = "/usr/bin/python3 -W ignore ";
  if (std::system((python + "-c 'import h5py, pandas, tables' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << "/usr/bin/python3 lacks h5py, pandas or tables";
  }
  Table many("many", {{"i", ColumnType::integer, ""}});
  for (std::int64_t i = 0; i < 100'000; ++i) many.add({i});
  {
    ResultFile result(file_, Overwrite::never, uuid, 4 << 20);
    result.attribute("/config", "text", std::string("a b"));
    result.attribute("/config", "list", std::vector<std::int64_t>{1, 2});
    result.table("/timing", phases());
    result.table("/timing", Table("nothing", {{"name", ColumnType::text, ""},
                                              {"x", ColumnType::real, "GB/s"}}));
    result.table("/timing", many);
    result.publish();
  }
  std::ofstream(folder_ / "reader.py") << result_reader;
  EXPECT_EQ(std::system((python + (folder_ / "reader.py") + " " + file_).c_str()), 0);
}

// ---------------------------------------------------------------- matrices among the results

TEST_F(ResultFiles, ContainMatricesWithManyWriters) {
  constexpr std::uint64_t rows = 301, columns = 203, tile = 64;
  std::vector<double> expected(rows * columns), row_of_ones(columns, 1);
  generate(Generator::uniform, ElementType::f64, 7, 0, rows * columns,
           reinterpret_cast<std::byte*>(expected.data()));
  Table many("many", {{"i", ColumnType::integer}});
  for (std::int64_t i = 0; i < 10'000; ++i) many.add({i});
  {
    ResultFile result(file_, Overwrite::never, uuid, 1 << 20);
    result.attribute("/results", "before", 1.0);
    const auto offset = result.dataset("/results", "C", ElementType::f64, {rows, columns});
    const auto other = result.dataset("/results/more", "D", ElementType::f64, {2, columns});
    EXPECT_EQ(offset % 4096, 0u);
    std::vector<std::thread> threads;
    for (std::uint64_t w = 0; w < 4; ++w) {
      threads.emplace_back([&, w] {
        const RangeWriter writer(result.part_path(), offset, ElementType::f64, columns);
        for (std::uint64_t at = w; at < 5 * 4; at += 4) {  // tiles of a grid of 5 x 4
          const Range i = intersection({at / 4 * tile, tile}, {0, rows});
          const Range j = intersection({at % 4 * tile, tile}, {0, columns});
          const double* const data = &expected[i.first * columns + j.first];
          writer.write(i, j, reinterpret_cast<const std::byte*>(data), columns * sizeof(double));
        }
        writer.sync();
      });
    }
    // Meanwhile, HDF5 writes its own structures before and after the matrices.
    result.attribute("/results", "meanwhile", std::string(100'000, 'x'));
    result.table("/results", many);
    for (auto& thread : threads) thread.join();
    const RangeWriter whole_rows(result.part_path(), other, ElementType::f64, columns);
    whole_rows.write({1, 1}, {0, columns}, reinterpret_cast<const std::byte*>(row_of_ones.data()),
                     columns * sizeof(double));
    EXPECT_THROW(whole_rows.write({0, 1}, {1, columns}, nullptr, 0), ContractError);
    whole_rows.sync();
    result.attribute("/results", "after", 2.0);
    result.publish();
  }
  const hdf5::Lock lock;
  const hdf5::File file(H5Fopen(file_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), "open");
  const auto read = [&](const char* path, std::uint64_t height) {
    const hdf5::Dataset dataset(H5Dopen2(file.get(), path, H5P_DEFAULT), "open");
    const hdf5::Space space(H5Dget_space(dataset.get()));
    hsize_t extents[2] = {};
    EXPECT_EQ(H5Sget_simple_extent_dims(space.get(), extents, nullptr), 2);
    EXPECT_EQ(extents[0], height);
    EXPECT_EQ(extents[1], columns);
    std::vector<double> values(height * columns);
    hdf5::check(
        H5Dread(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
        "read");
    return values;
  };
  EXPECT_EQ(read("/results/C", rows), expected);
  std::vector<double> zeros_and_ones(columns);
  zeros_and_ones.insert(zeros_and_ones.end(), row_of_ones.begin(), row_of_ones.end());
  EXPECT_EQ(read("/results/more/D", 2), zeros_and_ones);
  const hdf5::Dataset table(H5Dopen2(file.get(), "/results/many", H5P_DEFAULT), "open");
  std::vector<std::int64_t> numbers(10'000);
  const hdf5::Type type(H5Dget_type(table.get()));
  hdf5::check(H5Dread(table.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()),
              "read");
  EXPECT_EQ(numbers, test::counting<std::int64_t>(10'000));
}

TEST_F(ResultFiles, ReserveDiskSpaceForMatrices) {
  {
    ResultFile result(file_, Overwrite::never, uuid, 1 << 20);
    result.dataset("/results", "C", ElementType::f32, {1024, 1024});
    struct stat status {};
    ASSERT_EQ(::stat(result.part_path().c_str(), &status), 0);
    EXPECT_GE(status.st_blocks * 512, 5 << 20);
    const auto message = error_of([&] {
      result.dataset("/results", "D", ElementType::f64, {std::uint64_t{1} << 30, 1 << 20});
    });
    EXPECT_TRUE(names(message, "8 PiB", "free"));
    EXPECT_THROW(result.dataset("/results", "E", ElementType::f64, {0, 4}), ContractError);
  }
  EXPECT_EQ(entries(), 0u);
}

/// The space that was reserved for tables is not required once more after they are written.
TEST_F(ResultFiles, LabelledDataNeedTheirOwnSpaceOnly) {
  constexpr std::uint64_t limit = 3 << 20, reserve = 2 << 20, rows = 200'000;
  static_assert(rows * sizeof(std::int64_t) < reserve);
  static_assert(rows * sizeof(std::int64_t) + reserve > limit);
  const test::LoweredLimit file_size(RLIMIT_FSIZE, limit);
  Table many("many", {{"i", ColumnType::integer}});
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(rows); ++i) many.add({i});
  const auto write = [&](std::size_t count) {
    ResultFile result(file_, Overwrite::never, uuid, reserve);
    result.table("/timing", many);
    const Array array{"a", "i", ElementType::f64, std::vector<double>(count, 1.5)};
    result.labelled("/results", {.dimensions = {{"i", count}}, .arrays = {array}, .existing = {}});
    result.publish();
  };
  const std::string message = error_of([&] { write(limit / sizeof(double)); });
  EXPECT_TRUE(names(message, file_, "File too large", "3072 KiB"));
  EXPECT_EQ(entries(), 0U);
  write(1000);
  EXPECT_EQ(root_text(file_, "status"), "complete");
}

// ---------------------------------------------------------------- generated data

TEST_F(ResultFiles, ManyWritersMakeOneDataSet) {
  constexpr std::uint64_t count = 100'003, writers = 4;
  {
    DatasetFile file(file_, Overwrite::never, uuid, "/deep/x", ElementType::f64, {count});
    EXPECT_EQ(file.offset() % 4096, 0u);
    std::vector<std::thread> threads;
    for (std::uint64_t w = 0; w < writers; ++w) {
      threads.emplace_back([&, w] {
        const RangeWriter writer(file.part_path(), file.offset(), ElementType::f64);
        const std::uint64_t first = count * w / writers, end = count * (w + 1) / writers;
        std::vector<std::byte> data((end - first) * sizeof(double));
        generate(Generator::uniform, ElementType::f64, 7, first, end - first, data.data());
        writer.write(first, data);
        writer.sync();
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_FALSE(std::filesystem::exists(file_));
    file.publish();
  }
  EXPECT_EQ(entries(), 1u);
  const char* const no_environment[] = {nullptr};
  CommandLine given;
  given.values = {{"input.data", file_ + ":/deep/x"}};
  const auto source =
      open_source(OptionTable({input_options()}).resolve(given, no_environment, {}));
  EXPECT_EQ(source->access(), "contiguous, parallel pread");
  std::vector<double> read(count), expected(count);
  source->read(0, count, reinterpret_cast<std::byte*>(read.data()));
  generate(Generator::uniform, ElementType::f64, 7, 0, count,
           reinterpret_cast<std::byte*>(expected.data()));
  EXPECT_EQ(read, expected);
}

TEST_F(ResultFiles, GeneratedDataReserveDiskSpace) {
  {
    const DatasetFile file(file_, Overwrite::never, uuid, "/x", ElementType::f32, {1 << 20});
    struct stat status {};
    ASSERT_EQ(::stat(file.part_path().c_str(), &status), 0);
    EXPECT_GE(status.st_blocks * 512, 4 << 20);
    EXPECT_GE(status.st_size, 4 << 20);
  }
  EXPECT_EQ(entries(), 0u);
  EXPECT_TRUE(names(error_of([&] {
                      DatasetFile(file_, Overwrite::never, uuid, "/x", ElementType::f64,
                                  {std::uint64_t{1} << 50});
                    }),
                    "8 PiB", "free"));
  for (const auto* name : {"", "x", "/", "/x/"}) {
    error_of([&] { DatasetFile(file_, Overwrite::never, uuid, name, ElementType::f32, {1}); });
  }
  EXPECT_EQ(entries(), 0u);
}

}  // namespace
}  // namespace shardstream::io
