// Statistics of cells on every backend: against independent sums, and with the same bits for any
// batches, any number of units at a time, and several passes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/data/generate.hpp"
#include "support/backend.hpp"
#include "workloads/reduce/cells/check.hpp"
#include "workloads/reduce/cells/launches.hpp"
#include "workloads/reduce/cells/schedule.hpp"

namespace shardstream::workloads {
namespace {

/// A data set that has an order and no elements. With a second box, it is joined from two halves
/// along the first dimension, and the second half has this box.
class Order final : public io::Source {
 public:
  Order(const io::Extents& shape, const io::Extents& box, const io::Extents& second_box)
      : dimensions_(io::unnamed_dimensions(shape)), box_(box) {
    io::Extents half = shape;
    if (second_box.empty()) {
      parts_.push_back({io::ElementOrder(shape, box), 0});
      return;
    }
    half[0] = shape[0] / 2;
    parts_.push_back({io::ElementOrder(half, box), 0});
    half[0] = shape[0] - half[0];
    parts_.push_back({io::ElementOrder(half, second_box), shape[0] / 2});
    for (std::size_t d = 0; d < box.size(); ++d) box_[d] = std::min(box[d], second_box[d]);
  }

  const std::string& name() const override { return name_; }
  ElementType type() const override { return ElementType::f32; }
  const std::vector<io::SourceDimension>& dimensions() const override { return dimensions_; }
  const io::Extents& box() const override { return box_; }
  io::Extents coordinates(std::uint64_t index) const override {
    return blocks(index, 1).front().start;
  }
  std::vector<io::ElementOrder::Block> blocks(std::uint64_t first,
                                              std::uint64_t count) const override {
    std::vector<io::ElementOrder::Block> all;
    std::uint64_t before = 0;
    for (const auto& [order, row] : parts_) {
      const Range own =
          shardstream::intersection(Range{first, count}, Range{before, order.count()});
      if (own.count > 0) {
        for (auto& block : order.blocks(own.first - before, own.count)) {
          block.start[0] += row;
          block.box_start[0] += row;
          all.push_back(std::move(block));
        }
      }
      before += order.count();
    }
    return all;
  }
  const std::string& access() const override { return name_; }
  std::uint64_t stored_bytes() const override { return 0; }
  void read(std::uint64_t, std::uint64_t, std::byte*) const override {}

 private:
  struct PartOrder {
    io::ElementOrder order;
    std::uint64_t row;
  };
  std::string name_ = "order";
  std::vector<io::SourceDimension> dimensions_;
  io::Extents box_;
  std::vector<PartOrder> parts_;
};

struct Problem {
  io::Extents shape, box;
  std::vector<std::size_t> reduced;
  std::optional<std::size_t> grouped = {};
  std::vector<std::size_t> weighted = {};
  io::Extents second_box = {};
  bool in_turns = true;  ///< groups
  bool is_row = false;

  std::string text() const {
    std::string text;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const bool is_reduced = std::ranges::count(reduced, d) > 0;
      text += std::to_string(shape[d]) + "/" + std::to_string(box[d]) + (is_reduced ? "r " : " ");
    }
    return text + (grouped ? "grouped " : "") + (weighted.empty() ? "" : "weighted");
  }
};

constexpr std::uint64_t groups = 3;
/// The groups of a number of indices: one after another, as years are, or in turns, as months are.
/// The last ones of five have none.
std::vector<std::int32_t> group_of(std::uint64_t count, bool in_turns) {
  std::vector<std::int32_t> all;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t group = in_turns ? i * 7 % groups : (count - 1 - i) * groups / count;
    all.push_back(i % 5 == 4 ? -1 : static_cast<std::int32_t>(group));
  }
  return all;
}

/// One pass by one rank.
template <class T>
class Pass {
 public:
  Pass(const Problem& problem, const cells::Choice& choice, std::vector<T> elements,
       std::vector<double> own_weights = {})
      : source_(problem.shape, problem.box, problem.second_box),
        group_of_(problem.grouped ? group_of(problem.shape[*problem.grouped], problem.in_turns)
                                  : std::vector<std::int32_t>()),
        plan_(problem.is_row ? row_of(source_) : array_of(source_), dimensions_of(problem)),
        choice_(choice),
        elements_(std::move(elements)),
        weights_(std::move(own_weights)) {
    layout_ = plan_.layout();
    if (problem.grouped) {
      first_ = {0};
      for (std::uint64_t g = 0; g < groups; ++g) {
        for (std::uint64_t i = 0; i < problem.shape[*problem.grouped]; ++i) {
          if (group_of_[i] == static_cast<std::int32_t>(g)) steps_.push_back(i);
        }
        first_.push_back(steps_.size());
      }
    }
    if (!weights_.empty()) return;
    std::uint64_t weights = problem.weighted.empty() ? 0 : 1;
    for (const std::size_t d : problem.weighted) weights *= problem.shape[d];
    for (std::uint64_t i = 0; i < weights; ++i) {
      weights_.push_back(i % 11 == 3 ? 0 : 0.25 + static_cast<double>(mix(i) % 1000) / 500);
    }
  }

  const CellPlan& plan() const { return plan_; }
  unsigned words() const { return cells::moment_words<T>(choice_.quantities); }

  /// The moments of all outputs, from batches of `batch` elements, in `passes` over ranges of
  /// cells.
  std::vector<std::uint64_t> run(device::Device& device, std::uint64_t batch,
                                 std::uint64_t max_slots, std::uint64_t passes) {
    std::vector<std::uint64_t> result(words() * plan_.outputs());
    for (std::uint64_t p = 0; p < passes; ++p) {
      const Range part = share(plan_.cells(), p, passes);
      if (part.count == 0) continue;
      const cells::CellRange own{part.first, part.count};
      const std::vector<std::uint64_t> found = run(device, batch, max_slots, own);
      for (std::uint64_t line = 0; line < words() * layout_.groups; ++line) {
        std::copy_n(
            found.begin() + static_cast<std::ptrdiff_t>(line * part.count), part.count,
            result.begin() + static_cast<std::ptrdiff_t>(line * plan_.cells() + part.first));
      }
    }
    return result;
  }

  /// The same for the cells of one pass: word by word, and group by group.
  std::vector<std::uint64_t> run(device::Device& device, std::uint64_t batch,
                                 std::uint64_t max_slots, const cells::CellRange& own) {
    const auto stream = device.make_stream();
    const Range all{0, source_.count()};
    const std::uint64_t slots = std::min(max_slots, plan_.units());
    const bool has_own = slots == 1 && device.info().backend == "host";
    CellSchedule schedule(plan_, all, own, slots, has_own ? UnitGroups::own : UnitGroups::all);
    std::uint64_t batches = 0;
    for (std::uint64_t first = 0; first < all.count; first += batch, ++batches) {
      schedule.append(shardstream::intersection(all, {first, batch}));
    }
    const auto data = test::on_device(device, *stream, elements_);
    const auto steps = test::on_device(device, *stream, steps_);
    const auto first_step = test::on_device(device, *stream, first_);
    const auto weights = test::on_device(device, *stream, weights_);
    layout_.steps = steps.data();
    layout_.first_step = first_step.data();
    layout_.weights = weights.data();
    const std::uint64_t outputs = layout_.groups * own.count;
    CellLaunches<T> launches(device, *stream, schedule, layout_, choice_, slots,
                             max_depth(plan_, all));
    const cells::States folded = launches.nodes();
    for (std::uint64_t b = 0; b < batches; ++b) {
      launches.enqueue(*stream, b, data.data() + b * batch);
    }
    cells::FoldArgs<T> root{.nodes = {folded, own, layout_.groups},
                            .outputs = {own, {0, layout_.groups}},
                            .stack = {.depth = static_cast<unsigned>(schedule.nodes().size())},
                            .roots = folded,
                            .quantities = choice_.quantities};
    std::ranges::copy(schedule.nodes(), root.stack.nodes);
    stream->launch(cells::Kernels<T>::fold(), root);
    std::vector<std::uint64_t> result(words() * outputs);
    for (unsigned w = 0; w < words(); ++w) {
      stream->download(result.data() + w * outputs, folded.words + w * folded.values,
                       outputs * sizeof(std::uint64_t));
    }
    stream->synchronize();
    return result;
  }

  /// The values of each output, in the order of storage.
  std::map<std::uint64_t, CellSample<T>> samples() const {
    std::map<std::uint64_t, CellSample<T>> found;
    std::uint64_t at = 0;
    for (const auto& block : source_.blocks(0, source_.count())) {
      plan_.visit({at, block.count}, [&](const CellPlan::Element& element) {
        const T value = elements_[at++];
        const std::int32_t group = group_of_.empty() ? 0 : group_of_[element.grouped];
        if (group < 0) return;
        auto& cell = found[static_cast<std::uint64_t>(group) * plan_.cells() + element.cell];
        const auto marker = static_cast<T>(choice_.marker);
        if (choice_.skip != cells::Skip::none && cells::is_skipped(value, choice_.skip, marker)) {
          return;
        }
        cell.count += choice_.skip == cells::Skip::none ? 1 : cells::counted(value);
        cell.values.push_back(value);
        cell.numbers.push_back(static_cast<std::int64_t>(element.value));
        if (!weights_.empty()) cell.weights.push_back(weights_[element.weight]);
      });
    }
    return found;
  }

 private:
  CellDimensions dimensions_of(const Problem& problem) const {
    return {.reduced = problem.reduced,
            .grouped = problem.grouped,
            .groups = problem.grouped ? groups : 1,
            .group_of = group_of_,
            .weighted = problem.weighted};
  }

  Order source_;
  std::vector<std::int32_t> group_of_;
  CellPlan plan_;
  const cells::Choice choice_;
  const std::vector<T> elements_;
  cells::Layout layout_;
  std::vector<std::uint64_t> steps_, first_;
  std::vector<double> weights_;
};

/// Values with missing ones and, for floats, NaNs.
template <class T>
std::vector<T> values_of(std::uint64_t count, const cells::Choice& choice) {
  std::vector<T> values(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t random = mix(i + 1);
    if constexpr (std::floating_point<T>) {
      values[i] = static_cast<T>(1000 + static_cast<double>(random >> 40) / (1 << 20));
      if (choice.skip != cells::Skip::none && random % 7 == 0) values[i] = missing_nan<T>();
      if (choice.skip == cells::Skip::nans && random % 7 == 1) {
        values[i] = std::numeric_limits<T>::quiet_NaN();
      }
    } else {
      values[i] = static_cast<T>(random);
      if (choice.skip != cells::Skip::none && random % 7 == 0) {
        values[i] = static_cast<T>(choice.marker);
      }
    }
  }
  return values;
}

std::vector<Problem> problems() {
  return {
      {{300000}, {300000}, {0}},                         // one cell
      {{1000, 700}, {1000, 700}, {0}},                   // along the first dimension
      {{700, 1000}, {700, 1000}, {1}},                   // along the last one
      {{3, 200000}, {3, 200000}, {1}},                   // few long rows
      {{90, 3001}, {90, 3001}, {1}},                     // rows without alignment
      {{200000, 3}, {200000, 3}, {0}},                   // few columns
      {{100000, 5}, {100000, 5}, {1}},                   // short rows
      {{40, 50, 60}, {40, 50, 60}, {1}},                 // in the middle
      {{40, 50, 60}, {40, 50, 60}, {0, 2}},              // around a dimension
      {{50, 40, 90}, {7, 40, 90}, {0}},                  // chunks of the first dimension
      {{50, 41, 90}, {50, 10, 33}, {0}},                 // chunks of the others
      {{50, 41, 90}, {8, 10, 33}, {1, 2}},               // chunks of all
      {{50, 41, 90}, {8, 10, 40}, {0, 1, 2}},            // one cell of chunks
      {{2, 1, 30, 1, 70}, {2, 1, 30, 1, 70}, {1, 2}},    // dimensions of one index
      {{100, 1, 30}, {100, 1, 30}, {1}},                 // one value for each cell
      {{400, 300}, {400, 300}, {0}, 0},                  // groups of steps
      {{300, 400}, {300, 400}, {1}, 1},                  // groups within rows
      {{60, 30, 40}, {60, 30, 40}, {0, 2}, 0},           // groups and another dimension
      {{100, 40, 50}, {30, 17, 50}, {0, 1, 2}, 0},       // one cell for each group
      {{60, 30, 40}, {60, 30, 40}, {1, 2}, {}, {1, 2}},  // weights of an area
      {{60, 30, 40}, {60, 30, 40}, {0, 2}, {}, {1, 2}},  // weights of kept dimensions, too
      {{60, 30, 40}, {20, 7, 11}, {0, 1}, {}, {0}},      // weights of steps
      {{60, 30, 40}, {60, 30, 40}, {0, 1, 2}, 0, {1}},   // groups and weights
      {{400, 3000}, {7, 3000}, {0}, 0, {}, {}, false},   // one group after another
      {{900, 20, 40}, {900, 20, 40}, {0, 2}, 0, {}, {}, false},
      // two files with other chunks, some of which share cells
      {{90, 40, 50}, {5, 40, 50}, {0}, {}, {}, {1, 16, 50}},
      {{90, 40, 50}, {45, 16, 7}, {0, 2}, {}, {}, {45, 40, 20}},
      {{7, 6, 5, 4, 3, 9, 2, 8}, {7, 6, 5, 4, 3, 9, 2, 8}, {0, 2, 4, 6}},  // alternating
  };
}

template <class T>
class Cells : public testing::Test {};
#ifdef __SANITIZE_THREAD__
// Races depend neither on the type nor on the set of statistics, only on the problem.
constexpr bool has_one_set = true;
using Types = testing::Types<float, std::int32_t>;
#else
constexpr bool has_one_set = false;
using Types = testing::Types<float, double, std::int32_t, std::int64_t, std::int8_t, std::uint8_t,
                             std::uint64_t>;
#endif
TYPED_TEST_SUITE(Cells, Types);

using cells::Quantities, cells::Quantity;

constexpr Quantities extremes = Quantity::extremes, none;
constexpr Quantities positions = extremes | Quantity::positions;
constexpr Quantities squares = extremes | Quantity::squares;
constexpr Quantities powers = Quantity::squares | Quantity::powers;
constexpr Quantities everything =
    positions | powers | Quantity::magnitudes | Quantity::nonzeros | Quantity::product;
constexpr Quantities weighted = squares | Quantity::weights | Quantity::nonzeros;

/// Its names, for messages.
std::string text_of(Quantities quantities) {
  constexpr std::pair<Quantity, const char*> names[] = {{Quantity::extremes, "extremes"},
                                                        {Quantity::positions, "positions"},
                                                        {Quantity::squares, "squares"},
                                                        {Quantity::powers, "powers"},
                                                        {Quantity::magnitudes, "magnitudes"},
                                                        {Quantity::weights, "weights"},
                                                        {Quantity::nonzeros, "nonzeros"},
                                                        {Quantity::product, "product"},
                                                        {Quantity::units, "units"}};
  std::string text;
  for (const auto& [quantity, name] : names) {
    if (quantities.has(quantity)) text += std::string(" ") + name;
  }
  return text;
}

/// The unit of the first value that is the minimum, or if not `Least`, the maximum.
template <bool Least, class T>
std::int64_t unit_of_extreme(const CellSample<T>& sample, std::uint64_t unit) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < sample.values.size(); ++i) {
    const auto key = cells::extreme_key(sample.values[i]);
    const auto known = cells::extreme_key(sample.values[best]);
    if (Least ? key < known : known < key) best = i;
  }
  return sample.numbers[best] / static_cast<std::int64_t>(unit);
}

template <class T>
void expect_sums(const Problem& problem, Quantities quantities, cells::Skip skip) {
  SCOPED_TRACE(problem.text() + text_of(quantities) + " skip " +
               std::to_string(static_cast<int>(skip)));
  const cells::Choice choice{.quantities = quantities, .skip = skip, .marker = 77};
  const std::uint64_t count = saturating_product(problem.shape);
  Pass<T> pass(problem, choice, values_of<T>(count, choice));
  const auto device = test::make_backend();
  const std::vector<std::uint64_t> found = pass.run(*device, count, 4, 1);
  EXPECT_EQ(pass.run(*device, count, 64, 1), found);
  EXPECT_EQ(pass.run(*device, 7001, 1, 3), found);
  CellCheck worst;
  std::uint64_t counted = 0, expected = 0;
  for (const auto& [output, sample] : pass.samples()) {
    const auto m = cells::Moments<T>::load(
        quantities, const_cast<std::uint64_t*>(found.data()) + output, pass.plan().outputs());
    worst.add(check_cell(sample, any_moments(quantities, m), quantities));
    if (quantities.has(Quantity::units)) {
      const std::uint64_t unit = pass.plan().unit_elements();
      EXPECT_EQ(m.range.min_index, unit_of_extreme<true>(sample, unit));
      EXPECT_EQ(m.range.max_index, unit_of_extreme<false>(sample, unit));
    }
    expected += static_cast<std::uint64_t>(sample.count);
  }
  for (std::uint64_t o = 0; o < pass.plan().outputs(); ++o) counted += found[o];
  EXPECT_EQ(counted, expected);
  for (const auto& deviation : {worst.exact, worst.sum, worst.m2, worst.m3, worst.m4,
                                worst.magnitude, worst.weight, worst.product}) {
    EXPECT_TRUE(deviation.passes()) << deviation.error << " > " << deviation.bound;
  }
}

/// All quantities of every problem, and for floats, squares. Integers share the problems, and so do
/// other quantities and policies.
TYPED_TEST(Cells, AgreeWithIndependentSums) {
  using cells::Skip;
  std::size_t turn = sizeof(TypeParam) + std::is_signed_v<TypeParam>;
  for (const Problem& problem : problems()) {
    if (!std::floating_point<TypeParam> && ++turn % 2 == 0) continue;
    if (!problem.weighted.empty()) {
      expect_sums<TypeParam>(problem, weighted, Skip::nans);
      continue;
    }
    if (!has_one_set || !std::same_as<TypeParam, float>) {
      expect_sums<TypeParam>(problem, everything, Skip::none);
    }
    if (std::floating_point<TypeParam> && !has_one_set) {
      expect_sums<TypeParam>(problem, squares, Skip::none);
    }
    if (!std::same_as<TypeParam, float>) continue;
    switch (++turn % 3) {
      case 0:
        expect_sums<TypeParam>(problem, none, Skip::nans);
        break;
      case 1:
        expect_sums<TypeParam>(problem, extremes, Skip::missing);
        break;
      default:
        expect_sums<TypeParam>(problem, squares, Skip::nans);
    }
  }
}

/// 64 units of 9 rows, which have one lane.
TEST(CellsOfManyUnits, AgreeWithIndependentSums) {
  const Problem problem{{576, 8200}, {576, 8200}, {0}};
  if (!has_one_set) expect_sums<float>(problem, squares, cells::Skip::none);
  const Problem grouped{{576, 2750}, {576, 2750}, {0}, 0};  // in three groups
  expect_sums<float>(grouped, squares, cells::Skip::none);
  if (has_one_set) return;
  expect_sums<double>(grouped, everything, cells::Skip::nans);
}

/// Every compiled kernel, and each quantity alone, on a few problems.
TYPED_TEST(Cells, AgreeForEveryQuantity) {
  using cells::Skip;
  const Problem columns{{100, 70}, {100, 70}, {0}}, rows{{70, 100}, {70, 100}, {1}};
  const Problem weighted_columns{{100, 70}, {100, 70}, {0}, {}, {0}};
  const Problem weighted_rows{{70, 100}, {70, 100}, {1}, {}, {1}};
  for (const Skip skip : {Skip::none, Skip::missing, Skip::nans}) {
    for (const Quantities quantities :
         {none, extremes, squares, everything, positions, Quantities(Quantity::squares), powers,
          Quantities(Quantity::magnitudes), Quantities(Quantity::nonzeros),
          Quantities(Quantity::product)}) {
      expect_sums<TypeParam>(columns, quantities, skip);
      expect_sums<TypeParam>(rows, quantities, skip);
    }
    for (const Quantities quantities : {weighted, Quantities(Quantity::weights)}) {
      expect_sums<TypeParam>(weighted_columns, quantities, skip);
      expect_sums<TypeParam>(weighted_rows, quantities, skip);
    }
  }
}

/// All elements as a row, in one unit or several.
TYPED_TEST(Cells, AgreeAsARow) {
  using cells::Skip;
  constexpr Quantities units = Quantity::units;
  for (const std::uint64_t count : {1, 31, 5000, 70000, 1200003}) {
    const Problem problem{.shape = {count}, .box = {count}, .reduced = {0}, .is_row = true};
    expect_sums<TypeParam>(problem, squares | units, Skip::none);
    if (count > 70000 && has_one_set) continue;
    expect_sums<TypeParam>(problem, extremes | units, Skip::missing);
    expect_sums<TypeParam>(problem, none, Skip::none);
    expect_sums<TypeParam>(problem, extremes | powers | units, Skip::none);
  }
}

/// Along one axis, values of weight 0 or a tiny one come first in each lane, and lie so far from
/// the others that deviations from them would have no digits of the variance.
void expect_variance_of_far_values(const Problem& problem) {
  SCOPED_TRACE(problem.text());
  const std::size_t axis = problem.weighted.front();
  const std::uint64_t extent = problem.shape[axis];
  const std::uint64_t inner = axis == 0 ? problem.shape[1] : 1;
  std::vector<double> weights(extent), elements(saturating_product(problem.shape));
  const auto is_far = [&](std::uint64_t i) { return i < extent / 2; };
  for (std::uint64_t i = 0; i < extent; ++i) {
    weights[i] = !is_far(i) ? 1 + static_cast<double>(i % 3) : i % 2 == 0 ? 0 : 1e-60;
  }
  for (std::uint64_t e = 0; e < elements.size(); ++e) {
    const std::uint64_t i = e / inner % extent;
    elements[e] = is_far(i) ? 9.96921e26 : static_cast<double>(mix(e) % 1000) / 100;
  }
  Pass<double> pass(problem, {.quantities = weighted}, elements, weights);
  const auto device = test::make_backend();
  const std::vector<std::uint64_t> found = pass.run(*device, elements.size(), 4, 1);
  EXPECT_EQ(pass.run(*device, 701, 1, 3), found);
  for (const auto& [output, sample] : pass.samples()) {
    const auto m = cells::Moments<double>::load(
        weighted, const_cast<std::uint64_t*>(found.data()) + output, pass.plan().outputs());
    const double wanted = static_cast<double>(SampleMoments(sample).m2);
    EXPECT_NEAR(m.m2, wanted, wanted * 1e-12) << output;
    const CellCheck check = check_cell(sample, any_moments(weighted, m), weighted);
    EXPECT_TRUE(check.m2.passes()) << check.m2.error << " > " << check.m2.bound;
    EXPECT_LT(check.m2.bound, wanted * 1e-6);
  }
}

TEST(WeightedCells, ValuesThatHardlyCountDoNotChangeTheVariance) {
  expect_variance_of_far_values({{40, 300}, {40, 300}, {1}, {}, {1}});
  expect_variance_of_far_values({{300, 40}, {300, 40}, {0}, {}, {0}});
  expect_variance_of_far_values({{30, 3000}, {30, 170}, {0, 1}, {}, {1}});
}

}  // namespace
}  // namespace shardstream::workloads
