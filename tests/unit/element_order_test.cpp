// ElementOrder compared with the simplest implementation of the same order, element by element.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/error.hpp"
#include "io/source/source.hpp"

namespace shardstream::io {
namespace {

/// Calls f with every coordinate in [0, extent), row-major.
template <class F>
void for_each(const Extents& extent, F&& f) {
  Extents at(extent.size(), 0);
  while (true) {
    f(at);
    std::size_t d = extent.size();
    while (d > 0 && ++at[d - 1] == extent[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

/// All coordinates in the documented order of the class.
std::vector<Extents> in_order(const Extents& shape, const Extents& box) {
  Extents grid(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) grid[d] = (shape[d] + box[d] - 1) / box[d];
  std::vector<Extents> all;
  for_each(grid, [&](const Extents& g) {
    Extents extent(shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) {
      extent[d] = std::min(box[d], shape[d] - g[d] * box[d]);
    }
    for_each(extent, [&](const Extents& inside) {
      all.push_back(inside);
      for (std::size_t d = 0; d < shape.size(); ++d) all.back()[d] += g[d] * box[d];
    });
  });
  return all;
}

/// The coordinates that `blocks` cover, in order.
std::vector<Extents> covered(const std::vector<ElementOrder::Block>& blocks) {
  std::vector<Extents> all;
  for (const auto& block : blocks) {
    const std::size_t before = all.size();
    for_each(block.extent, [&](const Extents& inside) {
      all.push_back(inside);
      for (std::size_t d = 0; d < inside.size(); ++d) all.back()[d] += block.start[d];
    });
    EXPECT_EQ(all.size() - before, block.count);
  }
  return all;
}

class Orders : public testing::TestWithParam<std::pair<Extents, Extents>> {};

TEST_P(Orders, GiveTheCoordinatesOfEveryElement) {
  const auto& [shape, box] = GetParam();
  const ElementOrder order(shape, box);
  const auto expected = in_order(shape, box);
  ASSERT_EQ(order.count(), expected.size());
  for (std::uint64_t i = 0; i < expected.size(); ++i) EXPECT_EQ(order.coordinates(i), expected[i]);
}

TEST_P(Orders, SplitEveryRangeIntoFewBlocks) {
  const auto& [shape, box] = GetParam();
  const ElementOrder order(shape, box);
  const auto expected = in_order(shape, box);
  std::uint64_t box_size = 1;
  for (const auto extent : order.box()) box_size *= extent;
  for (std::uint64_t first = 0; first < expected.size(); ++first) {
    for (std::uint64_t count = 0; first + count <= expected.size(); ++count) {
      const auto blocks = order.blocks(first, count);
      const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(first);
      ASSERT_EQ(covered(blocks), std::vector(begin, begin + static_cast<std::ptrdiff_t>(count)));
      if (count <= box_size && shape == box) {
        ASSERT_LE(blocks.size(), 2 * shape.size() - 1);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ShapesAndBoxes, Orders,
                         testing::Values(std::pair<Extents, Extents>{{1}, {1}},
                                         std::pair<Extents, Extents>{{13}, {13}},
                                         std::pair<Extents, Extents>{{13}, {5}},
                                         std::pair<Extents, Extents>{{3}, {8}},
                                         std::pair<Extents, Extents>{{7, 9}, {7, 9}},
                                         std::pair<Extents, Extents>{{7, 9}, {3, 4}},
                                         std::pair<Extents, Extents>{{7, 9}, {1, 9}},
                                         std::pair<Extents, Extents>{{7, 9}, {7, 2}},
                                         std::pair<Extents, Extents>{{8, 6}, {4, 3}},
                                         std::pair<Extents, Extents>{{5, 1, 6}, {2, 1, 4}},
                                         std::pair<Extents, Extents>{{3, 4, 5}, {3, 4, 5}},
                                         std::pair<Extents, Extents>{{4, 5, 3}, {3, 2, 2}},
                                         std::pair<Extents, Extents>{{3, 2, 3, 4}, {3, 2, 3, 4}},
                                         std::pair<Extents, Extents>{{3, 2, 3, 4}, {2, 2, 2, 3}},
                                         std::pair<Extents, Extents>{{2, 3, 3, 4}, {9, 1, 2, 9}}));

/// Random selections of random data sets: the elements are those of the whole data set, in its
/// order, without those that are not selected.
TEST(ElementOrder, OfASelectionLeavesOutTheOtherElements) {
  std::mt19937_64 random(38);
  const auto below = [&](std::uint64_t end) { return random() % end; };
  for (int round = 0; round < 300; ++round) {
    const std::size_t rank = 1 + below(4);
    Extents shape, box;
    Selection selection;
    for (std::size_t d = 0; d < rank; ++d) {
      shape.push_back(1 + below(9));
      box.push_back(1 + below(6));
      Axis axis{.first = below(shape[d]), .step = 1 + below(4)};
      axis.count = 1 + below((shape[d] - 1 - axis.first) / axis.step + 1);
      selection.push_back(axis);
    }
    std::vector<Extents> expected;
    for (const Extents& at : in_order(shape, box)) {
      bool selected = true;
      for (std::size_t d = 0; d < rank; ++d) {
        const Axis& axis = selection[d];
        selected = selected && at[d] >= axis.first && at[d] <= axis.last() &&
                   (at[d] - axis.first) % axis.step == 0;
      }
      if (selected) expected.push_back(at);
    }
    const ElementOrder order(selection, box);
    ASSERT_EQ(order.count(), expected.size());
    for (std::uint64_t i = 0; i < expected.size(); ++i)
      ASSERT_EQ(order.coordinates(i), expected[i]);
    const std::uint64_t first = below(expected.size()), count = below(expected.size() - first + 1);
    std::vector<Extents> in_blocks = covered(order.blocks(first, count));
    for (Extents& at : in_blocks) {
      for (std::size_t d = 0; d < rank; ++d) at[d] = selection[d][at[d]];
    }
    const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(first);
    ASSERT_EQ(in_blocks, std::vector(begin, begin + static_cast<std::ptrdiff_t>(count)));
  }
}

TEST(ElementOrder, CountsBeyond32Bits) {
  const std::uint64_t rows = (std::uint64_t{1} << 31) + 3;
  const ElementOrder order(Extents{rows, 8}, {1 << 20, 8});
  EXPECT_EQ(order.count(), rows * 8);
  EXPECT_EQ(order.coordinates(rows * 8 - 1), (Extents{rows - 1, 7}));
  EXPECT_EQ(order.coordinates((std::uint64_t{5} << 23) + 9), (Extents{(5 << 20) + 1, 1}));
  const auto blocks = order.blocks(rows * 8 - 12, 12);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].start, (Extents{rows - 2, 4}));
  EXPECT_EQ(blocks[1].extent, (Extents{1, 8}));
}

TEST(ElementOrder, RejectsTooManyElements) {
  EXPECT_THROW(ElementOrder(Extents{}, {}), ContractError);
  EXPECT_THROW(ElementOrder(Extents{4}, {4, 4}), ContractError);
  EXPECT_THROW(ElementOrder(Extents{4, 0}, {4, 1}), ContractError);
  EXPECT_THROW(ElementOrder(Extents{4}, {0}), ContractError);
  EXPECT_THROW(ElementOrder(Extents{std::uint64_t{1} << 32, std::uint64_t{1} << 31}, {1, 1}),
               ContractError);
  const ElementOrder order(Extents{4}, {4});
  EXPECT_THROW(order.blocks(3, 2), ContractError);
  EXPECT_THROW(order.blocks(5, 0), ContractError);
  EXPECT_THROW(order.coordinates(4), ContractError);
}

}  // namespace
}  // namespace shardstream::io
