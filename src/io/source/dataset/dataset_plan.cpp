#include "io/source/dataset/dataset_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/description/conventions.hpp"
#include "kernels/data/convert.hpp"
#include "types/stored_value.hpp"

namespace shardstream::io {
namespace {

/// The warning that a library decodes the chunks in one thread.
std::string decoded_by_library(const Description& about) {
  return fmt::format(
      "{} has the filters {}, which {} decodes in a single thread, even with several readers: "
      "the ceiling decode is its rate (all readers decode deflate, lzf, shuffle and fletcher32: "
      "rewrite it with h5repack -f SHUF -f GZIP=1)",
      about.name, join(about.filters, ", ", [](const Filter& each) { return each.text; }),
      about.format->name);
}

/// The type of the elements if the request has none.
ElementType element_type(const Conversion& conversion, bool missing_as_nan) {
  if (const auto unpacked = unpacked_type(conversion.unpacking)) return *unpacked;
  const bool needs_nan = missing_as_nan && conversion.missing.any() && !is_float(conversion.from);
  if (needs_nan) return ElementType::f64;
  // Matrix products subtract means from i64 without rounding, but not from u64.
  if (missing_as_nan && conversion.from == StoredType::u64) return ElementType::i64;
  return natural_type(conversion.from);
}

/// Sets the type of the elements and, if it is a type of integers, the one that stands for missing
/// values.
void choose_elements(const DatasetRequest& request, DatasetPlan& plan) {
  Conversion& conversion = plan.conversion;
  conversion.to = request.type.value_or(element_type(conversion, request.missing_as_nan));
  const bool is_integer = conversion.to != ElementType::f32 && conversion.to != ElementType::f64;
  if (!is_integer || !conversion.missing.any()) return;
  if (request.missing_as_nan) {
    throw UsageError(fmt::format(
        "{} has missing values, which become NaN here, and {} has none: choose input.type = f64 or "
        "f32, or take values as they are stored with input.conventions = none",
        plan.about.name, word_of(conversion.to)));
  }
  if (!always_fits(conversion)) {
    throw UsageError(fmt::format(
        "{} has missing values, for which {} has no room: choose input.type = {}", plan.about.name,
        word_of(conversion.to), word_of(element_type(conversion, false))));
  }
  set_missing_element(conversion, missing_element(conversion.missing, conversion.from).value());
}

/// Completes plan.conversion, besides its elements, by the attributes of the data set.
void apply_conventions(DatasetPlan& plan) {
  const Description& about = plan.about;
  Conventions found = conventions_of(about.attributes, about.form.type, about.name);
  plan.conversion.from = found.type;
  plan.conversion.missing = found.missing;
  plan.conversion.unpacking = found.unpacking;
  plan.packed_by = std::move(found.packed_by);
  std::ranges::move(found.warnings, std::back_inserter(plan.origin.warnings));
  apply_attributes(plan.origin, std::move(found.applied), found.explained, about.name);
}

/// Sets the dimensions, with all of their elements.
void set_dimensions(DatasetPlan& plan) {
  plan.dimensions = unnamed_dimensions(plan.about.shape);
  const std::vector<Dimension>& dimensions = plan.about.dimensions;
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    plan.dimensions[d].name = dimensions[d].name;
    if (!dimensions[d].is_latin1) continue;
    plan.origin.warnings.push_back(
        fmt::format("the name of dimension {} of {} is not UTF-8 and is read as Latin-1: '{}'", d,
                    plan.about.name, printable(dimensions[d].name)));
  }
}

/// Chooses how the elements are read.
void choose_way(const DatasetRequest& request, DatasetPlan& plan) {
  const Description& about = plan.about;
  if (request.way == ReadWay::by_library) return;
  plan.offset = about.place.offset;
  if (request.way == ReadWay::direct && !plan.offset) {
    throw UsageError(
        fmt::format("{} is not contiguous or has a format that only {} knows, so it cannot be "
                    "read directly: leave input.read at auto, or store the data set contiguously",
                    about.name, about.format->name));
  }
  if (about.layout != Layout::chunked) return;
  plan.filters = ChunkFilters::of(about.filters);
  if (!plan.filters) plan.origin.warnings.push_back(decoded_by_library(about));
}

bool has_no_rows(const OpenDataset& dataset) {
  const std::vector<Dimension> dimensions = dataset.dimensions();
  return !dimensions.empty() && dimensions[0].extent == 0;
}

}  // namespace

DatasetPlan plan_dataset(const OpenFile& opened, const std::filesystem::path& file,
                         std::string path, const DatasetRequest& request) {
  const DatasetName name = opened.resolve(path.empty() ? DatasetName{file.string(), "", ""}
                                                       : dataset_name(file.string() + ":" + path));
  DatasetPlan plan{.file = file,
                   .path = name.path,
                   .path_and_member = name.path_and_member(),
                   .selection = name.selection,
                   .origin = opened.trace(name.path, request.unwritten)};
  const std::string full_name = file.string() + ":" + plan.path_and_member;
  const auto dataset = opened.open(name.path, full_name);
  if (request.is_part && has_no_rows(*dataset)) {
    plan.about.name = full_name;
    plan.about.shape = {0};
    return plan;
  }
  plan.about = dataset->describe(name.member, request.conventions);
  plan.about.may_have_gaps = plan.origin.may_have_gaps;
  plan.conversion = {.from = plan.about.form.type, .is_reversed = plan.about.form.is_reversed};
  if (request.conventions) apply_conventions(plan);
  choose_elements(request, plan);
  set_dimensions(plan);
  choose_way(request, plan);
  return plan;
}

void set_missing_element(Conversion& conversion, std::uint64_t bits) {
  const Conversion plain{.from = conversion.from, .to = conversion.to};
  convert(plain, reinterpret_cast<const std::byte*>(&bits), 1,
          reinterpret_cast<std::byte*>(&conversion.missing_element));
}

std::string access_of(const DatasetPlan& plan) {
  const Description& about = plan.about;
  if (plan.offset) return contiguous_access;
  std::string text = plan.filters ? "" : fmt::format("{}, ", about.format->read_call);
  switch (about.layout) {
    case Layout::chunked:
      text += fmt::format("chunks {}", join(about.box, "x"));
      break;
    case Layout::compact:
      text += "compact";
      break;
    case Layout::contiguous:
      text += "contiguous";
      break;
    case Layout::composed:
      text += "virtual";
  }
  if (!about.filters.empty()) text += ", filtered";
  if (plan.filters) {
    text += plan.filters->skips_all(0) ? ", parallel pread" : ", parallel decoding";
  }
  if (about.form.by_library) {
    text += fmt::format(", {} to {} by {}", about.stored_as, word_of(about.form.type),
                        about.format->name);
  }
  return text;
}

ChunkLayout layout_of(const DatasetPlan& plan, ReadOrder read_order,
                      std::shared_ptr<DecodingMemory> memory) {
  ChunkLayout layout{.name = plan.about.name,
                     .shape = plan.about.shape,
                     .chunk = plan.about.box,
                     .selection = {},
                     .element = plan.about.record.size,
                     .read_order = read_order,
                     .memory = std::move(memory)};
  for (const SourceDimension& each : plan.dimensions) layout.selection.push_back(each.axis);
  return layout;
}

std::uint64_t selected_bytes(const DatasetPlan& plan) {
  __extension__ using Wide = unsigned __int128;
  Wide bytes = plan.about.stored_bytes;
  for (const SourceDimension& each : plan.dimensions) bytes = bytes * each.axis.count;
  return static_cast<std::uint64_t>(bytes / saturating_product(plan.about.shape));
}

void take_rows(std::vector<SourceDimension>& dimensions, std::uint64_t rows,
               const std::string& name) {
  const auto first = std::ranges::find(
      dimensions, false, [](const SourceDimension& dimension) { return dimension.axis.is_index; });
  const std::uint64_t all = first == dimensions.end() ? 1 : first->axis.count;
  if (rows > all) {
    throw UsageError(
        fmt::format("input.rows is {}, but {} has {}: choose at most that many", rows, name, all));
  }
  if (first != dimensions.end()) first->axis.count = rows;
}

}  // namespace shardstream::io
