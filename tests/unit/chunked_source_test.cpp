// Chunked data sets, read in parallel without HDF5's decoder, have the bits that H5Dread gives: a
// grid of types, shapes and filters, chunks that were left out or are damaged, and threads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <map>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "io/source/dataset/planned_source.hpp"
#include "io/source/matrix.hpp"
#include "kernels/data/generate.hpp"
#include "support/errors.hpp"
#include "support/hdf5_inputs.hpp"
#include "support/rectangles.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::io {
namespace {

using test::counting;
using test::error_of;
using test::make_dataset;
using test::make_file;
using test::names;
using Bytes = std::vector<std::byte>;

using Filters = std::function<void(hid_t creation)>;

const std::map<std::string, Filters> all_filters = {
    {"none", [](hid_t) {}},
    {"deflate", [](hid_t p) { H5Pset_deflate(p, 4); }},
    {"shuffle", [](hid_t p) { H5Pset_shuffle(p); }},
    {"fletcher32", [](hid_t p) { H5Pset_fletcher32(p); }},
    {"shuffle, deflate",
     [](hid_t p) {
       H5Pset_shuffle(p);
       H5Pset_deflate(p, 1);
     }},
    {"shuffle, deflate, fletcher32",
     [](hid_t p) {
       H5Pset_shuffle(p);
       H5Pset_deflate(p, 9);
       H5Pset_fletcher32(p);
     }},
    {"fletcher32, shuffle, deflate", [](hid_t p) {
       H5Pset_fletcher32(p);
       H5Pset_shuffle(p);
       H5Pset_deflate(p, 4);
     }}};

std::unique_ptr<Source> open_chunked(const std::string& file, ReadWay way,
                                     std::optional<ElementType> type = {}, ReadOrder order = {},
                                     const std::string& path = "x", std::uint64_t rows = 0) {
  return open_dataset_source(file, "/" + path,
                             {.type = type, .way = way, .order = order, .rows = rows});
}

/// Reads to memory with another pattern at each call, so that a test fails if read() leaves bytes
/// unchanged. Thread-safe.
Bytes read(const Source& source, Range elements) {
  static std::atomic<unsigned> calls = 0;
  const std::byte poison{calls++ % 2 == 0 ? std::uint8_t{0xa5} : std::uint8_t{0x5a}};
  Bytes bytes(elements.count * size_of(source.type()), poison);
  source.read(elements.first, elements.count, bytes.data());
  return bytes;
}

/// Memory between the rows is not changed.
Bytes read(const Source& source, Range rows, Range columns, std::uint64_t gap) {
  const std::uint64_t pitch = (columns.count + gap) * size_of(source.type());
  Bytes bytes(rows.count * pitch, std::byte{77});
  test::read_rectangle(source, rows, columns, bytes.data(), pitch);
  return bytes;
}

/// The whole data set, ranges that divide chunks, and rectangles are equal to those of H5Dread.
void expect_as_from_hdf5(const std::string& file, std::optional<ElementType> type = {},
                         const std::string& path = "x", std::uint64_t rows = 0) {
  const auto ours = open_chunked(file, ReadWay::automatic, type, ReadOrder::elements, path, rows);
  const auto hdf5 = open_chunked(file, ReadWay::by_library, type, ReadOrder::elements, path, rows);
  ASSERT_TRUE(names(ours->access(), "parallel"));
  ASSERT_TRUE(names(hdf5->access(), "H5Dread"));
  ASSERT_EQ(ours->type(), hdf5->type());
  const std::uint64_t all = ours->count();
  ASSERT_EQ(read(*ours, {0, all}), read(*hdf5, {0, all}));
  ours->prepare({0, all});
  for (const std::uint64_t piece : {all / 2 + 1, all / 23 + 1}) {
    for (std::uint64_t first = 0; first < all; first += piece) {
      const Range elements = intersection({first, piece}, {0, all});
      ASSERT_EQ(read(*ours, elements), read(*hdf5, elements)) << first << " + " << elements.count;
    }
  }
  const auto& shape = ours->shape();
  if (shape.size() > 2) return;
  const auto our_rows = open_chunked(file, ReadWay::automatic, type, ReadOrder::blocks, path, rows);
  const std::uint64_t height = shape[0], width = shape.size() == 2 ? shape[1] : 1;
  our_rows->prepare({0, all});
  for (const Range band : {Range{0, height}, Range{height / 3, height / 2}, Range{height - 1, 1}}) {
    for (const Range columns : {Range{0, width}, Range{width / 3, (width + 1) / 2}}) {
      for (const std::uint64_t gap : {0, 3}) {
        ASSERT_EQ(read(*our_rows, band, columns, gap), read(*hdf5, band, columns, gap))
            << "rows " << band.first << " + " << band.count << ", columns " << columns.first;
      }
    }
  }
}

class ChunkedSources : public testing::Test {
 protected:
  /// Small values, which all types can hold, that differ and can be compressed.
  void make(hid_t stored, const test::Storage& storage) {
    std::uint64_t count = 1;
    for (const auto extent : storage.shape) count *= extent;
    std::vector<double> values(count);
    for (std::uint64_t i = 0; i < count; ++i) values[i] = static_cast<double>(mix(i) % 100);
    make_dataset(make_file(file_), "x", stored, storage, H5T_NATIVE_DOUBLE, values.data());
  }

  /// Calls change(data set) on the file.
  void change(const std::function<void(hid_t)>& how) {
    const hdf5::Lock lock;
    hdf5::File file(H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open");
    hdf5::Dataset dataset(H5Dopen2(file.get(), "x", H5P_DEFAULT), "open");
    how(dataset.get());
    hdf5::check(dataset.close(), "close");
    hdf5::check(file.close(), "close");
  }

  test::TemporaryFolder folder_;
  std::string file_ = folder_ / "data.h5";
};

// ---------------------------------------------------------------- the grid

TEST_F(ChunkedSources, EveryTypeAndFilterHasTheBitsOfHdf5) {
  const std::map<std::string, hid_t> types = {
      {"i8", H5T_STD_I8LE},      {"i8be", H5T_STD_I8BE},     {"u8", H5T_STD_U8LE},
      {"i16", H5T_STD_I16LE},    {"i16be", H5T_STD_I16BE},   {"u16", H5T_STD_U16LE},
      {"i32", H5T_STD_I32LE},    {"i32be", H5T_STD_I32BE},   {"u32be", H5T_STD_U32BE},
      {"i64", H5T_STD_I64LE},    {"i64be", H5T_STD_I64BE},   {"u64", H5T_STD_U64LE},
      {"f32", H5T_IEEE_F32LE},   {"f32be", H5T_IEEE_F32BE},  {"f64", H5T_IEEE_F64LE},
      {"f64be", H5T_IEEE_F64BE}, {"f80", H5T_NATIVE_LDOUBLE}};
  for (const auto& [name, type] : types) {
    for (const auto& [filter, set] : all_filters) {
      // Checksums do not depend on the type.
      if (name != "f32be" && filter.find("fletcher32") != filter.npos) continue;
      SCOPED_TRACE(name + ", " + filter);
      make(type, {{37, 53}, {8, 10}, set});
      expect_as_from_hdf5(file_);
      if (HasFatalFailure()) return;
    }
    SCOPED_TRACE(name + ", converted");
    for (const auto wanted : all_element_types) expect_as_from_hdf5(file_, wanted);
    if (HasFatalFailure()) return;
  }
}

TEST_F(ChunkedSources, EveryShapeOfChunksHasTheBitsOfHdf5) {
  using Extents = std::vector<hsize_t>;
  for (const auto& [shape, chunk] :
       std::vector<std::pair<Extents, Extents>>{{{1000}, {64}},
                                                {{1000}, {1000}},
                                                {{1}, {1}},
                                                {{37, 53}, {1, 53}},
                                                {{37, 53}, {37, 1}},
                                                {{37, 53}, {37, 53}},
                                                {{37, 53}, {3, 53}},
                                                {{37, 53}, {20, 7}},
                                                {{9, 10, 11}, {4, 5, 6}},
                                                {{9, 10, 11}, {1, 10, 11}},
                                                {{5, 4, 3, 7}, {2, 4, 2, 7}},
                                                {{3, 2, 4, 2, 5}, {2, 1, 3, 2, 2}}}) {
    for (const auto* const filter : {"none", "shuffle, deflate"}) {
      SCOPED_TRACE(
          fmt::format("{} of {}, {}", fmt::join(chunk, "x"), fmt::join(shape, "x"), filter));
      make(H5T_NATIVE_FLOAT, {shape, chunk, all_filters.at(filter)});
      expect_as_from_hdf5(file_);
      if (HasFatalFailure()) return;
      if (shape[0] > 3) expect_as_from_hdf5(file_, {}, "x", shape[0] - 3);
      if (HasFatalFailure()) return;
    }
  }
}

/// Chunks beyond the data set's edges, and each way in which HDF5 finds chunks.
TEST_F(ChunkedSources, EveryIndexHasTheBitsOfHdf5) {
  const hsize_t shape[] = {37, 53}, unlimited[] = {H5S_UNLIMITED, H5S_UNLIMITED},
                one_unlimited[] = {H5S_UNLIMITED, 53}, chunk[] = {8, 10}, large[] = {64, 60};
  const auto values = counting<float>(37 * 53);
  for (const bool latest : {false, true}) {
    for (const hsize_t* const max : {shape, one_unlimited, unlimited}) {
      for (const hsize_t* const part : {chunk, large}) {
        if (part == large && max != unlimited) continue;
        for (const auto& [filter, set] : all_filters) {
          for (const bool early : {false, true}) {
            SCOPED_TRACE(fmt::format("{} {} {} {}", latest, filter, early, part[0]));
            {
              const hdf5::Lock lock;
              const hdf5::Properties access(H5Pcreate(H5P_FILE_ACCESS), "access");
              if (latest) H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
              const hdf5::File file(
                  H5Fcreate(file_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), "create");
              const hdf5::Space space(H5Screate_simple(2, shape, max), "space");
              const hdf5::Properties creation(H5Pcreate(H5P_DATASET_CREATE), "creation");
              H5Pset_chunk(creation.get(), 2, part);
              set(creation.get());
              if (early) H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY);
              const hdf5::Dataset dataset(H5Dcreate2(file.get(), "x", H5T_NATIVE_FLOAT, space.get(),
                                                     H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                                          "dataset");
              hdf5::check(H5Dwrite(dataset.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                                   values.data()),
                          "write");
            }
            expect_as_from_hdf5(file_);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST_F(ChunkedSources, EdgesWithoutFiltersHaveTheBitsOfHdf5) {
  const hsize_t shape[] = {37, 53}, chunk[] = {8, 10};
  const auto values = counting<float>(37 * 53);
  {
    const hdf5::Lock lock;
    const hdf5::Properties access(H5Pcreate(H5P_FILE_ACCESS), "access");
    H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    const hdf5::File file(H5Fcreate(file_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()),
                          "file");
    make_dataset(file, "x", H5T_NATIVE_FLOAT,
                 {{std::begin(shape), std::end(shape)},
                  {std::begin(chunk), std::end(chunk)},
                  [](hid_t p) {
                    H5Pset_chunk_opts(p, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
                    H5Pset_shuffle(p);
                    H5Pset_deflate(p, 4);
                  }},
                 H5T_NATIVE_FLOAT, values.data());
  }
  expect_as_from_hdf5(file_);
}

TEST_F(ChunkedSources, UserBlocksAndLinksLeadToTheChunks) {
  const auto values = counting<float>(1000), others = counting<float>(1000, 5000);
  make_dataset(make_file(folder_ / "other.h5", 2048), "x", H5T_NATIVE_FLOAT,
               {{1000}, {64}, all_filters.at("deflate")}, H5T_NATIVE_FLOAT, others.data());
  {
    const auto file = make_file(file_, 512);
    make_dataset(file, "x", H5T_NATIVE_FLOAT, {{1000}, {64}}, H5T_NATIVE_FLOAT, values.data());
    H5Lcreate_external("other.h5", "/x", file.get(), "far", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/x", file.get(), "near", H5P_DEFAULT, H5P_DEFAULT);
  }
  for (const auto* const path : {"x", "near", "far"}) expect_as_from_hdf5(file_, {}, path);
  const auto far = open_chunked(file_, ReadWay::automatic, {}, ReadOrder::elements, "far");
  float first = 0;
  far->read(0, 1, reinterpret_cast<std::byte*>(&first));
  EXPECT_EQ(first, 5000);
}

// ---------------------------------------------------------------- left out

TEST_F(ChunkedSources, UnwrittenChunksHaveTheFillValue) {
  for (const auto& [filter, set] : all_filters) {
    for (const hid_t type : {H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_STD_I16LE, H5T_IEEE_F64LE}) {
      SCOPED_TRACE(filter);
      const float fill = 7;
      make_dataset(make_file(file_), "x", type,
                   {{37, 53},
                    {8, 10},
                    [&, &add = set](hid_t p) {
                      H5Pset_fill_value(p, H5T_NATIVE_FLOAT, &fill);
                      add(p);
                    }},
                   H5T_NATIVE_FLOAT, nullptr);
      change([&](hid_t dataset) {
        const hsize_t start[] = {10, 20}, count[] = {11, 13};
        const auto values = counting<float>(11 * 13);
        const hdf5::Space in_file(H5Dget_space(dataset), "space");
        H5Sselect_hyperslab(in_file.get(), H5S_SELECT_SET, start, nullptr, count, nullptr);
        const hdf5::Space in_memory(H5Screate_simple(2, count, nullptr), "space");
        hdf5::check(H5Dwrite(dataset, H5T_NATIVE_FLOAT, in_memory.get(), in_file.get(), H5P_DEFAULT,
                             values.data()),
                    "write");
      });
      expect_as_from_hdf5(file_);
      if (HasFatalFailure()) return;
      const auto source = open_chunked(file_, ReadWay::automatic, ElementType::f32);
      float first = 0;
      source->read(0, 1, reinterpret_cast<std::byte*>(&first));
      EXPECT_EQ(first, fill);
    }
  }
}

TEST_F(ChunkedSources, FiltersThatAChunkOmitsAreNotApplied) {
  make(H5T_NATIVE_FLOAT, {{32, 40}, {8, 10}, all_filters.at("shuffle, deflate, fletcher32")});
  const auto plain = counting<float>(80);
  Bytes shuffled(320);
  for (std::size_t i = 0; i < 320; ++i) {
    shuffled[i % 4 * 80 + i / 4] = reinterpret_cast<const std::byte*>(plain.data())[i];
  }
  change([&](hid_t dataset) {
    const hsize_t first[] = {8, 10}, second[] = {16, 20};
    hdf5::check(H5Dwrite_chunk(dataset, H5P_DEFAULT, 7, first, 320, plain.data()), "write");
    hdf5::check(H5Dwrite_chunk(dataset, H5P_DEFAULT, 6, second, 320, shuffled.data()), "write");
  });
  expect_as_from_hdf5(file_);
  const auto source = open_chunked(file_, ReadWay::automatic, {}, ReadOrder::blocks);
  for (const auto& [row, column] : {std::pair{8, 10}, {16, 20}}) {
    std::vector<float> values(80);
    test::read_rectangle(*source, {static_cast<std::uint64_t>(row), 8},
                         {static_cast<std::uint64_t>(column), 10},
                         reinterpret_cast<std::byte*>(values.data()), 40);
    EXPECT_EQ(values, plain);
  }
}

TEST_F(ChunkedSources, OtherFiltersAreLeftToHdf5WithAWarning) {
  make(H5T_STD_I32LE, {{1000}, {64}, [](hid_t p) {
                         H5Pset_scaleoffset(p, H5Z_SO_INT, 0);
                         H5Pset_deflate(p, 4);
                       }});
  auto source = open_chunked(file_, ReadWay::automatic);
  EXPECT_TRUE(names(source->access(), "H5Dread", "chunks 64", "filtered"));
  EXPECT_FALSE(source->decoding());
  ASSERT_EQ(source->origin().warnings.size(), 1U);
  EXPECT_TRUE(names(source->origin().warnings[0], file_ + ":/x", "scaleoffset", "decode"));
  source.reset();
  make(H5T_STD_I32LE, {{1000}, {64}, all_filters.at("deflate")});
  EXPECT_TRUE(open_chunked(file_, ReadWay::automatic)->origin().warnings.empty());
  EXPECT_TRUE(open_chunked(file_, ReadWay::automatic)->decoding());
}

// ---------------------------------------------------------------- damaged

TEST_F(ChunkedSources, DamagedChunksAreNamed) {
  struct Damage {
    std::string filters;
    std::size_t bytes;
    std::uint32_t mask;
  };
  for (const auto& [filters, bytes, mask] :
       std::vector<Damage>{{"deflate", 100, 0},                         // no deflate stream
                           {"shuffle, deflate, fletcher32", 100, 0},    // a wrong checksum
                           {"fletcher32", 8 * 10 * 4 + 4, 0},           // also a wrong checksum
                           {"fletcher32", 3, 0},                        // too short for one
                           {"shuffle", 8 * 10 * 4 - 4, 0},              // too few bytes
                           {"shuffle, deflate", 8 * 10 * 4 + 4, 3}}) {  // too many bytes
    SCOPED_TRACE(filters);
    make(H5T_NATIVE_FLOAT, {{37, 53}, {8, 10}, all_filters.at(filters)});
    const Bytes rubbish(bytes, std::byte{1});
    change([&, &size = bytes, &left_out = mask](hid_t dataset) {
      const hsize_t place[] = {8, 20};
      hdf5::check(H5Dwrite_chunk(dataset, H5P_DEFAULT, left_out, place, size, rubbish.data()),
                  "damage");
    });
    const auto source = open_chunked(file_, ReadWay::automatic);
    const auto message = error_of([&] { read(*source, {0, source->count()}); }, ExitCode::failed);
    EXPECT_TRUE(names(message, file_ + ":/x", "[8, 20]"));
    read(*source, {0, 8 * 53});  // the chunks before it are sound
  }
}

TEST_F(ChunkedSources, TruncatedFilesAreNamed) {
  for (const auto* const filter : {"none", "deflate"}) {
    make(H5T_NATIVE_DOUBLE, {{100'000}, {50'000}, all_filters.at(filter)});
    const auto source = open_chunked(file_, ReadWay::automatic);
    read(*source, {0, 100});
    std::filesystem::resize_file(file_, 20'000);
    const auto message = error_of([&] { read(*source, {90'000, 10'000}); }, ExitCode::failed);
    EXPECT_TRUE(names(message, file_ + ":/x", "truncated", "[50000]"));
  }
}

TEST_F(ChunkedSources, ValuesThatDoNotFitAreNamed) {
  std::vector<double> values(1000, 1);
  values[700] = 1e6;
  make_dataset(make_file(file_), "x", H5T_IEEE_F64BE, {{1000}, {64}, all_filters.at("deflate")},
               H5T_NATIVE_DOUBLE, values.data());
  auto as_bytes = open_chunked(file_, ReadWay::automatic, ElementType::u8);
  const auto too_large = error_of([&] { read(*as_bytes, {0, 1000}); }, ExitCode::failed);
  EXPECT_TRUE(names(too_large, "element 700", "1e+06", "u8"));
  as_bytes.reset();  // before its file is made anew
  values[700] = 1e300;
  make_dataset(make_file(file_), "x", H5T_IEEE_F64BE, {{1000}, {64}, all_filters.at("deflate")},
               H5T_NATIVE_DOUBLE, values.data());
  const auto as_floats = open_chunked(file_, ReadWay::automatic, ElementType::f32);
  const auto infinite = error_of([&] { read(*as_floats, {640, 64}); }, ExitCode::failed);
  EXPECT_TRUE(names(infinite, "element 700", "1e+300", "f32"));
}

// ---------------------------------------------------------------- threads

TEST_F(ChunkedSources, ThreadsThatShareChunksGetTheSameBits) {
  for (const auto& [filter, set] : all_filters) {
    SCOPED_TRACE(filter);
    make(H5T_NATIVE_FLOAT, {{700, 300}, {100, 300}, set});
    const auto hdf5 = open_chunked(file_, ReadWay::by_library);
    const std::uint64_t all = hdf5->count();
    const auto source = open_chunked(file_, ReadWay::automatic);
    const auto blocks = open_chunked(file_, ReadWay::automatic, {}, ReadOrder::blocks);
    source->prepare({0, all});
    blocks->prepare({0, all});
    const Bytes expected = read(*hdf5, {0, all});
    for (int pass = 0; pass < 2; ++pass) {
      Bytes elements(expected.size()), rows(expected.size());
      parallel_for(100, 4, [&](std::uint64_t piece) {
        source->read(piece * 2100, 2100, elements.data() + piece * 8400);
        test::read_rectangle(*blocks, {piece * 7, 7}, {0, 300}, rows.data() + piece * 8400, 1200);
      });
      EXPECT_EQ(elements, expected);
      EXPECT_EQ(rows, read(*hdf5, {0, 700}, {0, 300}, 0));
    }
  }
}

TEST_F(ChunkedSources, EveryThreadMeetsTheDamagedChunk) {
  make(H5T_NATIVE_FLOAT, {{10'000}, {1000}, all_filters.at("deflate")});
  change([&](hid_t dataset) {
    const hsize_t place[] = {5000};
    const Bytes rubbish(100, std::byte{1});
    hdf5::check(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, place, 100, rubbish.data()), "damage");
  });
  const auto source = open_chunked(file_, ReadWay::automatic);
  source->prepare({0, 10'000});
  parallel_for(4, 4, [&](std::uint64_t) {
    const auto message = error_of([&] { read(*source, {5100, 300}); }, ExitCode::failed);
    EXPECT_TRUE(names(message, "[5000]"));
  });
}

}  // namespace
}  // namespace shardstream::io
