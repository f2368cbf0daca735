// Matrices, read by rectangles: for each layout of a data set, every rectangle is equal to numpy's
// slice, and other memory is not changed.
#include "io/source/matrix.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "kernels/data/generate.hpp"
#include "support/errors.hpp"
#include "support/hdf5_inputs.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::io {
namespace {

using test::counting;
using test::error_of;
using test::make_dataset;
using test::make_file;
using test::names;

using Values = std::map<std::string, std::string, std::less<>>;

std::unique_ptr<Matrix> open(const Values& values, const std::string& key = "input.a",
                             std::uint64_t rows = 3, std::uint64_t columns = 4) {
  const char* const no_environment[] = {nullptr};
  CommandLine given;
  given.values = values;
  const OptionTable table({input_options(), matrix_options()});
  return open_matrix(table.resolve(given, no_environment, {}), key, rows, columns);
}

std::string refusal(const Values& values, const std::string& key = "input.a") {
  return error_of([&] { open(values, key); });
}

/// Reads a rectangle into rows with `gap` additional elements, and compares it with `expected`,
/// which has the whole matrix. The gaps must not change.
template <class T>
void expect_rectangle(const Matrix& matrix, const std::vector<T>& expected, Range rows,
                      Range columns, std::uint64_t gap) {
  ASSERT_EQ(size_of(matrix.type()), sizeof(T));
  const std::uint64_t pitch = columns.count + gap;
  const T untouched{77};
  std::vector<T> memory(rows.count * pitch, untouched);
  matrix.read(rows, columns, reinterpret_cast<std::byte*>(memory.data()), pitch * sizeof(T));
  for (std::uint64_t i = 0; i < rows.count; ++i) {
    for (std::uint64_t j = 0; j < pitch; ++j) {
      const std::uint64_t index = (rows.first + i) * matrix.columns() + columns.first + j;
      ASSERT_EQ(memory[i * pitch + j], j < columns.count ? expected[index] : untouched)
          << matrix.name() << ", " << matrix.access() << ": row " << rows.first + i << ", column "
          << columns.first + j;
    }
  }
}

/// Rectangles at every edge, single elements, rows, columns and the whole matrix.
template <class T>
void expect_all_rectangles(const Matrix& matrix, const std::vector<T>& expected) {
  const std::uint64_t m = matrix.rows(), n = matrix.columns();
  ASSERT_EQ(expected.size(), m * n);
  const auto ranges = [](std::uint64_t count) {
    return std::vector<Range>{{0, count},
                              {0, 1},
                              {count - 1, 1},
                              {count / 2, 1},
                              {0, count / 2},
                              {count / 3, count - count / 3},
                              {count / 3, count / 2}};
  };
  for (const Range rows : ranges(m)) {
    for (const Range columns : ranges(n)) {
      for (const std::uint64_t gap : {0, 5}) {
        expect_rectangle(matrix, expected, rows, columns, gap);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

class Matrices : public testing::Test {
 protected:
  static constexpr hsize_t m = 37, n = 53;

  /// The data set x of m x n elements 0, 1, 2, ... of the file's type `stored`.
  void make(hid_t stored, test::Storage storage = {{m, n}}) {
    const auto values = counting<double>(m * n);
    make_dataset(make_file(file_), "x", stored, storage, H5T_NATIVE_DOUBLE, values.data());
  }

  test::TemporaryFolder folder_;
  std::string file_ = folder_ / "data.h5";
};

// ---------------------------------------------------------------- layouts and types

TEST_F(Matrices, ContiguousOnesAreReadWithoutHdf5) {
  make(H5T_NATIVE_DOUBLE);
  for (const char* way : {"auto", "cached"}) {
    const auto matrix = open({{"input.a", file_ + ":/x"}, {"input.read", way}});
    EXPECT_EQ(matrix->name(), file_ + ":/x");
    EXPECT_EQ(matrix->access(), "contiguous, parallel pread");
    EXPECT_EQ(matrix->rows(), m);
    EXPECT_EQ(matrix->columns(), n);
    EXPECT_EQ(matrix->stored_bytes(), m * n * 8);
    EXPECT_EQ(matrix->type(), ElementType::f64);
    expect_all_rectangles(*matrix, counting<double>(m * n));
  }
}

TEST_F(Matrices, MayBeReadPastThePageCache) {
  make(H5T_NATIVE_FLOAT);
  std::unique_ptr<Matrix> matrix;
  try {
    matrix = open({{"input.a", file_}, {"input.read", "direct"}});
  } catch (const UsageError& error) {
    const std::string message = error.what();
    EXPECT_TRUE(names(message, "input.a", file_));
    GTEST_SKIP() << message;
  }
  EXPECT_EQ(matrix->access(), "contiguous, parallel O_DIRECT reads");
  matrix->prepare({5, 20});
  expect_all_rectangles(*matrix, counting<float>(m * n));
}

TEST_F(Matrices, RectanglesMayCrossChunks) {
  for (const std::vector<hsize_t>& chunk :
       {std::vector<hsize_t>{8, 10}, {1, n}, {m, 1}, {m, n}, {7, 53}}) {
    make(H5T_NATIVE_FLOAT, {{m, n}, chunk});
    const auto matrix = open({{"input.a", file_}});
    EXPECT_TRUE(names(matrix->access(), "chunks"));
    expect_all_rectangles(*matrix, counting<float>(m * n));
  }
}

TEST_F(Matrices, CompressedOnesAreDecoded) {
  make(H5T_NATIVE_INT64, {{m, n}, {16, 16}, [](hid_t p) {
                            H5Pset_shuffle(p);
                            H5Pset_deflate(p, 6);
                          }});
  const auto matrix = open({{"input.a", file_}});
  EXPECT_TRUE(names(matrix->access(), "filtered"));
  EXPECT_LT(matrix->stored_bytes(), m * n * 8);
  expect_all_rectangles(*matrix, counting<std::int64_t>(m * n));
}

/// A filter that changes nothing and counts how often a chunk is decoded.
class CountingFilter {
 public:
  static constexpr H5Z_filter_t id = 300;  // from the range for tests
  CountingFilter() {
    const hdf5::Lock lock;
    decoded() = 0;
    const H5Z_class2_t about{H5Z_CLASS_T_VERS, id, 1, 1, "counting", nullptr, nullptr, pass};
    hdf5::check(H5Zregister(&about), "H5Zregister");
  }
  ~CountingFilter() {
    const hdf5::Lock lock;
    H5Zunregister(id);
  }
  static int& decoded() {
    static int count = 0;
    return count;
  }

 private:
  static std::size_t pass(unsigned flags, std::size_t, const unsigned*, std::size_t bytes,
                          std::size_t*, void**) {
    if ((flags & H5Z_FLAG_REVERSE) != 0) ++decoded();
    return bytes;
  }
};

TEST_F(Matrices, ChunksThatSeveralRectanglesShareAreDecodedOnce) {
  constexpr hsize_t rows = 128, columns = 6000;  // two bands of 48 chunks, 3 MiB each
  const auto values = counting<double>(rows * columns);
  const CountingFilter filter;
  make_dataset(make_file(file_), "x", H5T_NATIVE_DOUBLE,
               {{rows, columns},
                {64, 125},
                [](hid_t p) { H5Pset_filter(p, CountingFilter::id, 0, 0, nullptr); }},
               H5T_NATIVE_DOUBLE, values.data());
  const auto matrix = open({{"input.a", file_}});
  for (std::uint64_t row = 0; row < rows; row += 16) {
    expect_rectangle(*matrix, values, {row, 16}, {0, columns}, 0);
  }
  EXPECT_EQ(CountingFilter::decoded(), 2 * 48);
}

TEST_F(Matrices, ForeignTypesAreConverted) {
  make(H5T_IEEE_F64BE);
  expect_all_rectangles(*open({{"input.a", file_}}), counting<double>(m * n));
  make(H5T_STD_U16LE);
  expect_all_rectangles(*open({{"input.a", file_}}), counting<std::int32_t>(m * n));
  make(H5T_STD_U32BE, {{m, n}, {10, 20}});  // other byte order and signedness
  expect_all_rectangles(*open({{"input.a", file_}, {"input.type", "i32"}}),
                        counting<std::int32_t>(m * n));
  make(H5T_NATIVE_DOUBLE);
  expect_all_rectangles(*open({{"input.a", file_}, {"input.type", "f32"}}), counting<float>(m * n));
  expect_all_rectangles(*open({{"input.a", file_}, {"input.type", "i32"}}),
                        counting<std::int32_t>(m * n));
}

TEST_F(Matrices, OneDimensionIsAColumn) {
  for (const std::vector<hsize_t>& chunk : {std::vector<hsize_t>{}, {10}}) {
    make(H5T_NATIVE_DOUBLE, {{m * n}, chunk});
    const auto matrix = open({{"input.a", file_}});
    EXPECT_EQ(matrix->rows(), m * n);
    EXPECT_EQ(matrix->columns(), 1u);
    expect_all_rectangles(*matrix, counting<double>(m * n));
  }
  make(H5T_NATIVE_DOUBLE, {{m * n}, {10}});
  expect_all_rectangles(*open({{"input.a", file_}, {"input.type", "i32"}}),
                        counting<std::int32_t>(m * n));
}

TEST_F(Matrices, ASingleElementIsAMatrix) {
  const float one = 42;
  for (const std::vector<hsize_t>& shape : {std::vector<hsize_t>{}, {1}, {1, 1}}) {
    for (const hid_t stored : {H5T_IEEE_F32LE, H5T_IEEE_F32BE}) {
      make_dataset(make_file(file_), "x", stored, {shape}, H5T_NATIVE_FLOAT, &one);
      const auto matrix = open({{"input.a", file_}});
      EXPECT_EQ(matrix->rows() * matrix->columns(), 1u);
      expect_rectangle(*matrix, std::vector<float>{42}, {0, 1}, {0, 1}, 3);
    }
  }
}

TEST_F(Matrices, AnEmptyRectangleReadsNothing) {
  for (const std::vector<hsize_t>& chunk : {std::vector<hsize_t>{}, {8, 8}}) {
    make(H5T_NATIVE_DOUBLE, {{m, n}, chunk});
    const auto matrix = open({{"input.a", file_}});
    matrix->read({0, 0}, {0, n}, nullptr, n * 8);
    matrix->read({m, 0}, {n, 0}, nullptr, 0);
    matrix->read({3, 2}, {n, 0}, nullptr, 8);
  }
}

TEST_F(Matrices, RectanglesBeyondTheMatrixAreErrors) {
  for (const std::vector<hsize_t>& chunk : {std::vector<hsize_t>{}, {8, 8}}) {
    make(H5T_NATIVE_DOUBLE, {{m, n}, chunk});
    const auto matrix = open({{"input.a", file_}});
    EXPECT_THROW(matrix->read({0, m + 1}, {0, 1}, nullptr, 8), ContractError);
    EXPECT_THROW(matrix->read({0, 1}, {1, n}, nullptr, n * 8), ContractError);
    EXPECT_THROW(matrix->read({0, 2}, {0, 4}, nullptr, 24), ContractError);
    EXPECT_THROW(matrix->read({0, 2}, {0, 4}, nullptr, 33), ContractError);
  }
}

TEST_F(Matrices, SeveralThreadsReadAtOnce) {
  const auto values = counting<float>(500 * 300);
  for (const std::vector<hsize_t>& chunk : {std::vector<hsize_t>{}, {64, 70}}) {
    make_dataset(make_file(file_), "x", H5T_NATIVE_FLOAT, {{500, 300}, chunk}, H5T_NATIVE_FLOAT,
                 values.data());
    const auto matrix = open({{"input.a", file_}});
    std::vector<float> whole(500 * 300);
    parallel_for(50, 4, [&](std::uint64_t piece) {  // 5 x 10 tiles of 100 x 30
      const Range rows{piece / 10 * 100, 100}, columns{piece % 10 * 30, 30};
      matrix->read(rows, columns,
                   reinterpret_cast<std::byte*>(&whole[rows.first * 300 + columns.first]),
                   300 * sizeof(float));
    });
    EXPECT_EQ(whole, values);
  }
}

// ---------------------------------------------------------------- generators

TEST_F(Matrices, GeneratedElementsAreNumberedRowByRow) {
  const auto ramp = open({{"input.a", "ramp"}, {"input.type", "i32"}}, "input.a", m, n);
  EXPECT_EQ(ramp->name(), "ramp");
  EXPECT_EQ(ramp->stored_bytes(), 0u);
  expect_all_rectangles(*ramp, counting<std::int32_t>(m * n));
  std::vector<float> expected(m * n);
  generate(Generator::uniform, ElementType::f32, 9, 0, m * n,
           reinterpret_cast<std::byte*>(expected.data()));
  expect_all_rectangles(*open({{"input.seed", "9"}}, "input.a", m, n), expected);
}

TEST_F(Matrices, GeneratedMatricesDiffer) {
  std::vector<float> a(12), b(12), c(12);
  const auto read = [](const std::string& key, std::vector<float>& values) {
    open({{"input.c", "uniform"}}, key)
        ->read({0, 3}, {0, 4}, reinterpret_cast<std::byte*>(values.data()), 16);
  };
  read("input.a", a);
  read("input.b", b);
  read("input.c", c);
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
  EXPECT_NE(b, c);
}

TEST_F(Matrices, TheCallerChoosesTheGeneratedType) {
  const char* const no_environment[] = {nullptr};
  const OptionTable table({input_options(), matrix_options()});
  const auto options = table.resolve({}, no_environment, {});
  EXPECT_EQ(open_matrix(options, "input.b", 2, 2, {.generated = ElementType::f64})->type(),
            ElementType::f64);
  EXPECT_EQ(open_matrix(options, "input.b", 2, 2)->type(), ElementType::f32);
}

TEST_F(Matrices, TheirFilesAreInputs) {
  const char* const no_environment[] = {nullptr};
  CommandLine given;
  given.values = {{"input.b", file_ + ":/x"}};
  const auto options =
      OptionTable({input_options(), matrix_options()}).resolve(given, no_environment, {});
  EXPECT_FALSE(names_file(options, "input.a"));
  EXPECT_TRUE(names_file(options, "input.b"));
  EXPECT_FALSE(names_file(options, "input.c"));
}

// ---------------------------------------------------------------- what is refused

TEST_F(Matrices, ErrorsNameTheOption) {
  EXPECT_TRUE(names(refusal({{"input.b", folder_ / "none.h5"}}, "input.b"), "input.b",
                    folder_ / "none.h5"));
  EXPECT_TRUE(names(refusal({}, "input.c"), "input.c", "''"));
  make(H5T_NATIVE_DOUBLE);
  EXPECT_TRUE(names(refusal({{"input.b", file_ + ":/y"}}, "input.b"), "input.b", "'/y'", file_));
  EXPECT_TRUE(names(refusal({{"input.b", file_ + ":x"}}, "input.b"), file_ + ":/x"));
  EXPECT_TRUE(names(refusal({{"input.a", file_}, {"input.count", "7"}}), "input.count"));
  EXPECT_TRUE(names(refusal({{"input.a", "ramp"}, {"input.shape", "7x7"}}), "input.shape"));
  const auto too_large =
      error_of([] { open({}, "input.b", std::uint64_t{1} << 40, std::uint64_t{1} << 40); });
  EXPECT_TRUE(names(too_large, "input.b", "1099511627776x1099511627776"));
}

TEST_F(Matrices, HaveAtMostTwoDimensions) {
  const auto values = counting<float>(60);
  make_dataset(make_file(file_), "x", H5T_NATIVE_FLOAT, {{3, 4, 5}}, H5T_NATIVE_FLOAT,
               values.data());
  const auto message = refusal({{"input.a", file_}});
  EXPECT_TRUE(names(message, "input.a", file_ + ":/x", "3 x 4 x 5"));
}

TEST_F(Matrices, ErrorsNameThePlaceOfAValueThatDoesNotFit) {
  std::vector<double> values = counting<double>(m * n);
  values[5 * n + 7] = 0.5;
  make_dataset(make_file(file_), "x", H5T_NATIVE_DOUBLE, {{m, n}}, H5T_NATIVE_DOUBLE,
               values.data());
  const auto read = [](const Matrix& matrix, Range rows, Range columns) {
    std::vector<std::byte> memory(rows.count * columns.count * size_of(matrix.type()));
    matrix.read(rows, columns, memory.data(), columns.count * size_of(matrix.type()));
  };
  {
    const auto matrix = open({{"input.a", file_}, {"input.type", "i64"}});
    read(*matrix, {0, 5}, {0, n});
    const auto fraction = error_of([&] { read(*matrix, {2, 10}, {3, 10}); }, ExitCode::failed);
    EXPECT_TRUE(names(fraction, "[5, 7]", file_ + ":/x", "f64"));
    EXPECT_TRUE(names(fraction, "0.5", "i64"));
  }
  std::vector<std::uint32_t> large(m * n, 1);
  large[5 * n + 7] = 1u << 31;
  make_dataset(make_file(file_), "x", H5T_STD_U32BE, {{m, n}}, H5T_NATIVE_UINT32, large.data());
  const auto signed_matrix = open({{"input.a", file_}, {"input.type", "i32"}});
  const auto sign = error_of([&] { read(*signed_matrix, {2, 10}, {3, 10}); }, ExitCode::failed);
  EXPECT_TRUE(names(sign, "i32", "[5, 7]"));
}

TEST_F(Matrices, ADamagedChunkIsNamedByItsPlace) {
  make(H5T_NATIVE_DOUBLE, {{m, n}, {8, 10}, [](hid_t p) { H5Pset_fletcher32(p); }});
  {
    const hdf5::Lock lock;
    const hdf5::File file(H5Fopen(file_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open");
    const hdf5::Dataset dataset(H5Dopen2(file.get(), "x", H5P_DEFAULT), "open");
    const hsize_t place[] = {8, 20};
    const std::vector<std::byte> zeros(8 * 10 * 8 + 4, std::byte{1});
    hdf5::check(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, 0, place, zeros.size(), zeros.data()),
                "damage");
  }
  const auto matrix = open({{"input.a", file_}});
  std::vector<double> memory(m * n);
  auto* const out = reinterpret_cast<std::byte*>(memory.data());
  matrix->read({0, 8}, {0, n}, out, n * 8);
  const auto read = [&] { matrix->read({10, 3}, {15, 30}, out, n * 8); };
  const auto message = error_of(read, ExitCode::failed);
  EXPECT_TRUE(names(message, "[8, 20]", file_ + ":/x"));
}

}  // namespace
}  // namespace shardstream::io
