// Elements that were never written have the fill value in every way of reading. HDF5 leaves the
// memory of some of them unchanged, so every read here goes to memory with a known pattern.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/source/dataset/planned_source.hpp"
#include "support/errors.hpp"
#include "support/hdf5_inputs.hpp"
#include "support/rectangles.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::io {
namespace {

using test::error_of;
using test::make_dataset;
using test::make_file;
using test::names;

using Creation = std::function<void(hid_t creation)>;

constexpr hsize_t height = 37, width = 53, chunk_height = 8, chunk_width = 10;
constexpr std::uint64_t count = height * width;

std::unique_ptr<Source> open(const std::string& file, std::optional<ElementType> type = {},
                             ReadOrder order = ReadOrder::elements, const std::string& path = "x",
                             ReadWay way = ReadWay::automatic) {
  return open_dataset_source(file, "/" + path, {.type = type, .way = way, .order = order});
}

/// The value that the element of a row and a column must have.
using Expected = std::function<double(std::uint64_t row, std::uint64_t column)>;

double number(const Source& source, const std::byte* element) {
  return with_element_type(source.type(), [&](auto type) {
    typename decltype(type)::type value;
    std::memcpy(&value, element, sizeof value);
    return static_cast<double>(value);
  });
}

bool same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

/// Reads all elements in pieces, in the order of elements.
void expect_elements(const Source& source, const Expected& expected) {
  const std::size_t size = size_of(source.type());
  for (const std::uint64_t piece : {count, count / 3 + 1}) {
    for (const std::byte poison : {std::byte{0xa5}, std::byte{0x5a}}) {
      for (std::uint64_t first = 0; first < count; first += piece) {
        const std::uint64_t now = std::min(piece, count - first);
        std::vector<std::byte> bytes(now * size, poison);
        source.read(first, now, bytes.data());
        for (std::uint64_t i = 0; i < now; ++i) {
          const auto at = source.coordinates(first + i);
          const double value = number(source, bytes.data() + i * size);
          ASSERT_TRUE(same(value, expected(at[0], at[1])))
              << source.access() << ": " << value << " at " << at[0] << ", " << at[1];
        }
      }
    }
  }
}

/// Reads rectangles. Memory between the rows must stay unchanged.
void expect_rectangles(const Source& source, const Expected& expected) {
  const std::size_t size = size_of(source.type());
  for (const Range rows : {Range{0, height}, Range{5, 21}, Range{height - 1, 1}}) {
    for (const Range columns : {Range{0, width}, Range{17, 30}, Range{width - 1, 1}}) {
      for (const std::uint64_t gap : {0, 3}) {
        const std::byte poison{0xa5};
        const std::uint64_t pitch = (columns.count + gap) * size;
        std::vector<std::byte> bytes(rows.count * pitch, poison);
        test::read_rectangle(source, rows, columns, bytes.data(), pitch);
        for (std::uint64_t i = 0; i < rows.count; ++i) {
          for (std::uint64_t j = 0; j < columns.count; ++j) {
            const double value = number(source, bytes.data() + i * pitch + j * size);
            ASSERT_TRUE(same(value, expected(rows.first + i, columns.first + j)))
                << source.access() << ": " << value << " in row " << i << ", column " << j;
          }
          for (std::uint64_t j = columns.count * size; j < pitch; ++j) {
            ASSERT_EQ(bytes[i * pitch + j], poison) << "beside row " << i;
          }
        }
      }
    }
  }
}

void expect_values(const std::string& file, std::optional<ElementType> type,
                   const Expected& expected, const std::string& path = "x") {
  for (const ReadWay way : {ReadWay::automatic, ReadWay::by_library}) {
    expect_elements(*open(file, type, ReadOrder::elements, path, way), expected);
    expect_rectangles(*open(file, type, ReadOrder::blocks, path, way), expected);
    if (testing::Test::HasFatalFailure()) return;
  }
}

const std::map<std::string, Creation> fill_times = {
    {"if set", [](hid_t p) { H5Pset_fill_time(p, H5D_FILL_TIME_IFSET); }},
    {"at allocation", [](hid_t p) { H5Pset_fill_time(p, H5D_FILL_TIME_ALLOC); }},
    {"never", [](hid_t p) { H5Pset_fill_time(p, H5D_FILL_TIME_NEVER); }}};

/// Filters that readers decode, and one that is left to HDF5.
const std::map<std::string, Creation> chunked_layouts = {
    {"none", [](hid_t) {}},
    {"deflate", [](hid_t p) { H5Pset_deflate(p, 4); }},
    {"nbit", [](hid_t p) { H5Pset_nbit(p); }},
    {"scaleoffset", [](hid_t p) { H5Pset_scaleoffset(p, H5Z_SO_INT, 0); }}};

class UnwrittenElements : public testing::Test {
 protected:
  /// A matrix x of chunks. `fill` is set unless it is NaN, for which it is left undefined.
  void make(hid_t type, double fill, const Creation& more, bool is_chunked = true) {
    std::vector<hsize_t> chunk;
    if (is_chunked) chunk = {chunk_height, chunk_width};
    make_dataset(make_file(file_), "x", type,
                 {{height, width},
                  chunk,
                  [&](hid_t p) {
                    const hid_t given = std::isnan(fill) ? type : H5T_NATIVE_DOUBLE;
                    H5Pset_fill_value(p, given, std::isnan(fill) ? nullptr : &fill);
                    more(p);
                  }},
                 H5T_NATIVE_DOUBLE, nullptr);
  }

  /// Writes ones to the chunk whose first element is (8, 20).
  void write_a_chunk() {
    const hdf5::Lock lock;
    const hdf5::File file(H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open");
    const hdf5::Dataset dataset(H5Dopen2(file.get(), "x", H5P_DEFAULT), "open");
    const hsize_t start[] = {8, 20}, extent[] = {chunk_height, chunk_width};
    const std::vector<double> ones(chunk_height * chunk_width, 1);
    const hdf5::Space in_file(H5Dget_space(dataset.get()), "space");
    H5Sselect_hyperslab(in_file.get(), H5S_SELECT_SET, start, nullptr, extent, nullptr);
    const hdf5::Space in_memory(H5Screate_simple(2, extent, nullptr), "space");
    hdf5::check(H5Dwrite(dataset.get(), H5T_NATIVE_DOUBLE, in_memory.get(), in_file.get(),
                         H5P_DEFAULT, ones.data()),
                "write");
  }

  static bool is_written(std::uint64_t row, std::uint64_t column) {
    return row / chunk_height == 1 && column / chunk_width == 2;
  }

  /// A virtual data set x of `file`, whose rows from 7 on are the first rows of source.h5:/x.
  void make_virtual(const std::string& file, hid_t type, const Creation& more) {
    make_dataset(make_file(file), "x", type,
                 {{height, width},
                  {},
                  [&](hid_t p) {
                    const hsize_t all[] = {height, width}, start[] = {7, 0}, first[] = {0, 0};
                    const hsize_t part[] = {height - 7, width};
                    const hdf5::Space to(H5Screate_simple(2, all, nullptr));
                    const hdf5::Space from(H5Screate_simple(2, all, nullptr));
                    H5Sselect_hyperslab(to.get(), H5S_SELECT_SET, start, nullptr, part, nullptr);
                    H5Sselect_hyperslab(from.get(), H5S_SELECT_SET, first, nullptr, part, nullptr);
                    H5Pset_virtual(p, to.get(), file_.c_str(), "/x", from.get());
                    more(p);
                  }},
                 type, nullptr);
  }

  test::TemporaryFolder folder_;
  std::string file_ = folder_ / "source.h5";
};

TEST_F(UnwrittenElements, OfChunksHaveTheFillValue) {
  for (const auto& [filter, set_filter] : chunked_layouts) {
    for (const auto& [time, set_time] : fill_times) {
      for (const double fill : {0.0, 7.0, std::nan("")}) {
        // With an undefined value, HDF5 has none to write at allocation.
        if (std::isnan(fill) && time == "at allocation") continue;
        SCOPED_TRACE(filter + ", fill time " + time + ", fill value " + std::to_string(fill));
        make(H5T_STD_I32LE, fill, [&, &one = set_filter, &other = set_time](hid_t p) {
          one(p);
          other(p);
        });
        const double value = std::isnan(fill) ? 0 : fill;
        expect_values(file_, {}, [&](auto, auto) { return value; });
        write_a_chunk();
        expect_values(file_, {},
                      [&](auto row, auto column) { return is_written(row, column) ? 1 : value; });
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(UnwrittenElements, AreConverted) {
  const auto never = [](hid_t p) {
    H5Pset_nbit(p);
    H5Pset_fill_time(p, H5D_FILL_TIME_NEVER);
  };
  using Wanted = std::vector<std::optional<ElementType>>;
  const std::vector<std::pair<hid_t, Wanted>> cases = {
      {H5T_STD_I16LE, {std::nullopt, ElementType::f64, ElementType::u8}},
      {H5T_STD_I32BE, {std::nullopt, ElementType::f32, ElementType::i64}},
      {H5T_STD_U64LE, {std::nullopt, ElementType::i8, ElementType::f64}},
      {H5T_IEEE_F32LE, {std::nullopt, ElementType::i32, ElementType::f64}},
      {H5T_IEEE_F64BE, {std::nullopt, ElementType::u8, ElementType::f32}}};
  for (const auto& [stored, wanted] : cases) {
    make(stored, 7, never);
    write_a_chunk();
    for (const auto& type : wanted) {
      expect_values(file_, type,
                    [&](auto row, auto column) { return is_written(row, column) ? 1.0 : 7.0; });
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(UnwrittenElements, OfContiguousDataHaveTheFillValue) {
  for (const auto& [time, set] : fill_times) {
    for (const double fill : {0.0, 7.0, std::nan("")}) {
      if (std::isnan(fill) && time == "at allocation") continue;
      SCOPED_TRACE("fill time " + time + ", fill value " + std::to_string(fill));
      make(H5T_IEEE_F32LE, fill, set, false);
      const double value = std::isnan(fill) ? 0 : fill;
      for (const auto& type : std::vector<std::optional<ElementType>>{{}, ElementType::i32}) {
        expect_values(file_, type, [&](auto, auto) { return value; });
      }
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(UnwrittenElements, OfVirtualDataHaveTheFillValue) {
  const std::string file = folder_ / "virtual.h5";
  const float seven = 7, eight = 8;
  const Creation set = [&](hid_t p) { H5Pset_fill_value(p, H5T_NATIVE_FLOAT, &seven); };
  const Creation undefine = [](hid_t p) { H5Pset_fill_value(p, H5T_NATIVE_FLOAT, nullptr); };
  for (const auto& [time, set_time] : fill_times) {
    SCOPED_TRACE(time);
    make(H5T_STD_I32LE, 7, set_time);
    write_a_chunk();
    make_virtual(file, H5T_IEEE_F32LE, set);
    expect_values(file, {}, [&](auto row, auto column) {
      return row >= 7 && is_written(row - 7, column) ? 1.0 : 7.0;
    });
    make(H5T_STD_I32LE, 0, set_time);
    make_virtual(file, H5T_IEEE_F32LE, undefine);
    expect_values(file, {}, [](auto, auto) { return 0.0; });
    if (HasFatalFailure()) return;
  }
  // If the fill values differ, HDF5 reads neither, so the value of the element is undefined.
  make(H5T_STD_I32LE, 7, fill_times.at("never"));
  write_a_chunk();
  make_virtual(file, H5T_IEEE_F32LE,
               [&](hid_t p) { H5Pset_fill_value(p, H5T_NATIVE_FLOAT, &eight); });
  EXPECT_TRUE(names(error_of([&] { open(file); }), file_ + ":/x", "7", "8"));
}

TEST_F(UnwrittenElements, WhoseFillValueDoesNotFitAreAnError) {
  for (const char* time : {"if set", "never"}) {
    make(H5T_STD_I32LE, -1, [&](hid_t p) {
      fill_times.at(time)(p);
      H5Pset_nbit(p);
    });
    write_a_chunk();
    const auto source = open(file_, ElementType::u8);
    std::vector<std::byte> bytes(count);
    const std::string message =
        error_of([&] { source->read(0, count, bytes.data()); }, ExitCode::failed);
    EXPECT_TRUE(names(message, file_ + ":/x", "u8", "-1", "input.type"));
  }
  // The fill value does not matter if no element has it.
  {
    const std::vector<double> values(count, 1);
    make_dataset(make_file(file_), "x", H5T_STD_I32LE,
                 {{height, width},
                  {chunk_height, chunk_width},
                  [](hid_t p) {
                    const int fill = -1;
                    H5Pset_fill_value(p, H5T_NATIVE_INT, &fill);
                    H5Pset_nbit(p);
                  }},
                 H5T_NATIVE_DOUBLE, values.data());
  }
  expect_values(file_, ElementType::u8, [](auto, auto) { return 1.0; });
}

}  // namespace
}  // namespace shardstream::io
