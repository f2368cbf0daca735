// Texts of selections, resolved for data sets of several shapes.
#include <optional>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "fuzz/fuzz.hpp"
#include "io/description/dataset_name.hpp"
#include "io/source/selection.hpp"

namespace shardstream::fuzz {
namespace {

using Words = std::vector<std::string_view>;

// Items by position and by coordinate, and texts of which most are wrong.
const Words positions = {"0", "-1", ":", "...", "::2", "1:3", ":-1", "-2:", "0:1", " 1 :2: 1"};
const Words coordinates = {"lat=-1:0",   "lat=1:0", "lon=0.5:", "lon=2.5",  "lon=359:1",
                           "lon=-1:361", "x=1",     "lat=::2",  " lon = :2"};
const Words odd = {"",
                   " ",
                   "=",
                   "lat=",
                   "1e300",
                   "lat=1e999",
                   "lon=nan",
                   "-inf",
                   "0x1",
                   "2^3",
                   "+1",
                   "[",
                   "]",
                   "{a}",
                   "::0",
                   "::-1",
                   "-8",
                   "7",
                   "1:2:3:4",
                   "\xff",
                   "\n",
                   "18446744073709551615",
                   "9223372036854775808",
                   "99999999999999999999",
                   "-18446744073709551615"};

/// Shapes of data sets with and without names and coordinates.
const std::vector<std::vector<io::Dimension>>& shapes() {
  static const std::vector<std::vector<io::Dimension>> all = {
      {},
      {{"", 1, false}},
      {{"lat", 3, true}, {"lon", 4, true}},
      {{"x", 7, false}, {"", 1, false}, {"lon", 4, true}},
      {{"lon", 4, true}, {"lon", 4, true}},
      {{"", std::uint64_t{1} << 62, false}, {"lat", 3, true}}};
  return all;
}

std::optional<io::Coordinates> coordinates_of(const io::Dimension& dimension) {
  io::Coordinates found{dimension.name, ElementType::f32, {}, {}};
  if (dimension.name == "lat") found.values = {1, 0, -1};
  if (dimension.name == "lon") {
    found.values = {0, 1, 2, 2.5};
    found.attributes = {{"units", "degrees_east"}};
  }
  return found.values.empty() ? std::nullopt : std::optional(found);
}

/// Checks that the selection is inside the data set, and that its canonical text means the same.
void check(const io::Selection& selection, const std::vector<io::Dimension>& shape) {
  std::vector<std::uint64_t> extents;
  for (const io::Dimension& each : shape) extents.push_back(each.extent);
  expect(selection.size() == shape.size(), "a selection has one axis per dimension");
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const io::Axis& axis = selection[d];
    expect(axis.count > 0 && axis.step > 0 && axis.first < extents[d] &&
               axis.count - 1 <= (extents[d] - 1 - axis.first) / axis.step,
           "a selection is inside the data set");
  }
  if (shape.empty()) return;
  const std::string text = io::text_of(selection, extents);
  const auto none = [](std::size_t) { return std::optional<io::Coordinates>(); };
  const auto parsed = io::SelectionText::parse(std::string_view(text).substr(1, text.size() - 2));
  expect(io::resolve(parsed, shape, none, "x") == selection, "the canonical text means the same");
}

class Selections final : public Target {
 public:
  std::string_view name() const override { return "selections"; }

  Files make(Random& random) const override {
    const Words& usual = random.one_in(2) ? positions : coordinates;
    std::string text;
    for (std::uint64_t left = random.below(4) + 1; left > 0; --left) {
      text += random.pick(random.one_in(8) ? odd : usual);
      if (left > 1) text += ',';
    }
    if (random.one_in(3)) mutate(text, random);
    return {{"case.txt", text}};
  }

  void run() const override {
    const std::string text = read_file("case.txt");
    io::dataset_name("none.h5:/x[" + text + "]");
    const auto parsed = io::SelectionText::parse(text);
    std::optional<UsageError> error;
    bool selects = false;
    for (const auto& shape : shapes()) {
      try {
        const auto values = [&](std::size_t d) { return coordinates_of(shape[d]); };
        check(io::resolve(parsed, shape, values, "x"), shape);
        selects = true;
      } catch (const UsageError& thrown) {
        error = thrown;
      }
    }
    if (!selects) throw *error;
  }
};

}  // namespace

std::unique_ptr<Target> selections_target() {
  return std::make_unique<Selections>();
}

}  // namespace shardstream::fuzz
