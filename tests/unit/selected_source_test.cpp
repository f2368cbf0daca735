// Selections of data sets with any storage, read element by element or in blocks with any pitches:
// each value is that of the whole data set at the coordinates of its element.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <random>

#include "core/shard.hpp"
#include "io/source/dataset/planned_source.hpp"
#include "io/source/selection.hpp"
#include "support/errors.hpp"
#include "support/hdf5_inputs.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::io {
namespace {

/// Draws of one seed.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  /// 0 to end - 1.
  std::uint64_t below(std::uint64_t end) { return random_() % end; }

  Axis axis(std::uint64_t extent) {
    Axis axis{.first = below(extent), .step = 1 + below(3)};
    axis.count = 1 + below((extent - 1 - axis.first) / axis.step + 1);
    if (axis.count == 1 && below(2) == 0)
      axis = {.first = axis.first, .count = 1, .is_index = true};
    return below(3) == 0 ? Axis{.count = extent} : axis;
  }
  std::vector<std::size_t> order(std::size_t rank) {
    std::vector<std::size_t> order(rank);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::shuffle(order, random_);
    return order;
  }

 private:
  std::mt19937_64 random_;
};

/// A data set whose element number i, row by row, is i; in the formats of all readers.
class SelectedSource : public testing::TestWithParam<unsigned> {
 protected:
  SelectedSource() : draw_(GetParam()) {
    const std::size_t rank = 1 + draw_.below(4);
    for (std::size_t d = 0; d < rank; ++d) shape_.push_back(1 + draw_.below(rank < 3 ? 40 : 11));
    std::vector<hsize_t> chunk;
    for (const hsize_t extent : shape_) chunk.push_back(1 + draw_.below(extent));
    const auto deflate = [](hid_t p) {
      H5Pset_shuffle(p);
      H5Pset_deflate(p, 1);
    };
    const auto values = test::counting<float>(saturating_product(shape_));
    const auto file = test::make_file(file_);
    const std::vector<hsize_t> shape(shape_.begin(), shape_.end());
    const auto make = [&](const std::string& name, hid_t type, const test::Storage& storage,
                          hid_t given = H5T_NATIVE_FLOAT) {
      test::make_dataset(file, name, type, storage, given, values.data());
    };
    make("contiguous", H5T_IEEE_F32LE, {shape});
    make("big-endian", H5T_IEEE_F32BE, {shape});
    make("chunked", H5T_IEEE_F32LE, {shape, chunk});
    make("deflated", H5T_STD_I32LE, {shape, chunk, deflate});
    make("filtered by HDF5", H5T_IEEE_F32LE,
         {shape, chunk, [](hid_t p) { H5Pset_scaleoffset(p, H5Z_SO_FLOAT_DSCALE, 0); }});
    const auto record = record_of(12, 4, H5T_IEEE_F32LE);
    const auto member = record_of(sizeof(float), 0, H5T_NATIVE_FLOAT);
    make("records", record.get(), {shape}, member.get());
    make("chunked records", record.get(), {shape, chunk}, member.get());
  }

  static hdf5::Type record_of(std::size_t size, std::size_t offset, hid_t member) {
    const hdf5::Lock lock;
    hdf5::Type record(H5Tcreate(H5T_COMPOUND, size), "record");
    hdf5::check(H5Tinsert(record.get(), "v", offset, member), "member");
    return record;
  }

  std::unique_ptr<Source> open(const std::string& path, ReadOrder order) {
    Selection selection;
    for (const std::uint64_t extent : shape_) selection.push_back(draw_.axis(extent));
    return open_dataset_source(file_, "/" + path + text_of(selection, shape_),
                               {.type = ElementType::f32, .order = order});
  }

  /// The value at these coordinates.
  float value(const Extents& at) const {
    const Extents stride = row_major_strides(shape_);
    std::uint64_t number = 0;
    for (std::size_t d = 0; d < at.size(); ++d) number += at[d] * stride[d];
    return static_cast<float>(number);
  }

  void check_elements(const Source& source) {
    const std::uint64_t all = source.count(), first = draw_.below(all);
    const std::uint64_t count = 1 + draw_.below(all - first);
    std::vector<float> values(count, -1.0F);
    source.read(first, count, reinterpret_cast<std::byte*>(values.data()));
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(values[i], value(source.coordinates(first + i))) << source.name() << " " << i;
    }
  }

  /// Reads a block to memory whose dimensions have a random order and gaps.
  void check_block(const Source& source) {
    const std::size_t rank = source.dimensions().size();
    Extents start, extent;
    for (const SourceDimension& dimension : source.dimensions()) {
      start.push_back(draw_.below(dimension.axis.count));
      extent.push_back(1 + draw_.below(dimension.axis.count - start.back()));
    }
    Pitches pitch(rank);
    std::uint64_t bytes = sizeof(float);
    for (const std::size_t d : draw_.order(rank)) {
      pitch[d] = bytes;
      bytes = bytes * extent[d] + draw_.below(3) * sizeof(float);
    }
    constexpr float untouched = -1;
    std::vector<float> values(bytes / sizeof(float), untouched);
    source.read_block(start, extent, pitch, reinterpret_cast<std::byte*>(values.data()));
    const Extents stride = row_major_strides(extent);
    for (std::uint64_t i = 0; i < saturating_product(extent); ++i) {
      Extents at(rank);
      std::uint64_t place = 0;
      for (std::size_t d = 0; d < rank; ++d) {
        const std::uint64_t inside = i / stride[d] % extent[d];
        at[d] = source.dimensions()[d].axis[start[d] + inside];
        place += inside * pitch[d] / sizeof(float);
      }
      ASSERT_EQ(values[place], value(at)) << source.name() << " " << i;
      values[place] = untouched;
    }
    EXPECT_EQ(std::ranges::count(values, untouched), static_cast<std::ptrdiff_t>(values.size()));
  }

  Draw draw_;
  Extents shape_;
  test::TemporaryFolder folder_;
  std::string file_ = folder_ / "data.h5";
};

TEST_P(SelectedSource, HasTheElementsAtItsCoordinates) {
  for (const char* const path : {"contiguous", "big-endian", "chunked", "deflated",
                                 "filtered by HDF5", "records{v}", "chunked records{v}"}) {
    check_elements(*open(path, ReadOrder::elements));
    check_block(*open(path, ReadOrder::blocks));
  }
}

TEST(ConvertedBlock, WithDenseRowsGoesToItsPlace) {
  const test::TemporaryFolder folder;
  const std::string file = folder / "data.h5";
  {
    const hdf5::Lock lock;
    test::make_dataset(test::make_file(file), "x", H5T_STD_I16BE, {{3, 4, 200}}, H5T_NATIVE_INT16,
                       test::counting<std::int16_t>(2400).data());
  }
  const auto source = open_dataset_source(file, "/x", {.order = ReadOrder::blocks});
  ASSERT_EQ(source->type(), ElementType::i32);
  const Extents start{1, 1, 20}, extent{2, 3, 150};
  constexpr std::uint64_t row = 160, plane = 500;
  std::vector<std::int32_t> values(2 * plane, -1);
  source->read_block(start, extent, {4 * plane, 4 * row, 4},
                     reinterpret_cast<std::byte*>(values.data()));
  std::uint64_t untouched = values.size();
  for (std::uint64_t i = 0; i < extent[0]; ++i) {
    for (std::uint64_t j = 0; j < extent[1]; ++j) {
      for (std::uint64_t k = 0; k < extent[2]; ++k, --untouched) {
        ASSERT_EQ(values[i * plane + j * row + k],
                  static_cast<std::int32_t>(((i + 1) * 4 + j + 1) * 200 + k + 20));
      }
    }
  }
  EXPECT_EQ(std::ranges::count(values, -1), static_cast<std::ptrdiff_t>(untouched));
}

INSTANTIATE_TEST_SUITE_P(Seeds, SelectedSource, testing::Range(0U, 60U));

}  // namespace
}  // namespace shardstream::io
