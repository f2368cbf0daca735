#include "io/source/dataset/dataset_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <system_error>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/hdf5/conventions.hpp"
#include "io/hdf5/dimensions.hpp"
#include "io/hdf5/lookup.hpp"
#include "kernels/data/convert.hpp"
#include "kernels/data/stored_value.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

/// The warning that HDF5 decodes the chunks in one thread.
std::string decoded_by_hdf5(const DatasetDescription& about) {
  return fmt::format(
      "{} has the filters {}, which HDF5 decodes in a single thread, even with several readers: "
      "the ceiling decode is its rate (all readers decode deflate, lzf, shuffle and fletcher32: "
      "rewrite it with h5repack -f SHUF -f GZIP=1)",
      about.name, join(about.filters, ", "));
}

/// The position of the elements in `holder`. Nothing if HDF5 must read them, since they are not
/// contiguous there, were never written (and have the fill value), or have a foreign format.
std::optional<std::uint64_t> offset_of_elements(const hdf5::Dataset& dataset,
                                                const DatasetDescription& about,
                                                const std::string& holder) {
  const hdf5::Properties creation(H5Dget_create_plist(dataset.get()),
                                  "cannot get the layout of " + about.name);
  const std::uint64_t bytes = saturating_product(about.shape) * about.record.size;
  if (about.layout != H5D_CONTIGUOUS || !about.filters.empty() || about.form.by_hdf5 ||
      H5Pget_external_count(creation.get()) != 0 || about.stored_bytes != bytes) {
    return std::nullopt;
  }
  const haddr_t offset = H5Dget_offset(dataset.get());
  std::error_code unknown;
  const std::uintmax_t end = std::filesystem::file_size(holder, unknown);
  if (offset == HADDR_UNDEF || unknown || bytes > end || offset > end - bytes) return std::nullopt;
  return offset;
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
void choose_elements(const DatasetRequest& request, DatasetDescription& about) {
  Conversion& conversion = about.conversion;
  conversion.to = request.type.value_or(element_type(conversion, request.missing_as_nan));
  const bool is_integer = conversion.to != ElementType::f32 && conversion.to != ElementType::f64;
  if (!is_integer || !conversion.missing.any()) return;
  if (request.missing_as_nan) {
    throw UsageError(fmt::format(
        "{} has missing values, which become NaN here, and {} has none: choose input.type = f64 or "
        "f32, or take values as they are stored with input.conventions = none",
        about.name, name_of(conversion.to)));
  }
  if (!always_fits(conversion)) {
    throw UsageError(
        fmt::format("{} has missing values, for which {} has no room: choose input.type = {}",
                    about.name, name_of(conversion.to), name_of(element_type(conversion, false))));
  }
  set_missing_element(conversion, missing_element(conversion.missing, conversion.from).value());
}

/// Completes plan.about.conversion, besides its elements, by the attributes of the data set.
void apply_conventions(const hdf5::Dataset& dataset, DatasetPlan& plan) {
  Conventions found = read_conventions(dataset, plan.about.form.type, plan.about.name);
  Conversion& conversion = plan.about.conversion;
  conversion.from = found.type;
  conversion.missing = found.missing;
  conversion.unpacking = found.unpacking;
  plan.packed_by = std::move(found.packed_by);
  std::ranges::move(found.warnings, std::back_inserter(plan.origin.warnings));
  apply_attributes(plan.origin, std::move(found.applied), found.explained, plan.about.name);
}

/// Sets the names of the dimensions.
void name_dimensions(const hdf5::Dataset& dataset, DatasetPlan& plan) {
  const std::vector<Dimension> dimensions = dimensions_of(dataset, plan.about.name);
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    plan.about.dimensions[d].name = dimensions[d].name;
    if (!dimensions[d].is_latin1) continue;
    plan.origin.warnings.push_back(
        fmt::format("the name of dimension {} of {} is not UTF-8 and is read as Latin-1: '{}'", d,
                    plan.about.name, printable(dimensions[d].name)));
  }
}

bool has_no_rows(const hdf5::Dataset& dataset, const std::string& name) {
  const std::vector<Dimension> dimensions = dimensions_of(dataset, name);
  return !dimensions.empty() && dimensions[0].extent == 0;
}

}  // namespace

DatasetPlan plan_dataset(const hdf5::File& opened, const std::filesystem::path& file,
                         std::string path, const DatasetRequest& request) {
  const hdf5::Lock lock;
  if (path.empty()) path = only_dataset(opened, file.string());
  const DatasetName name = resolve_braces(opened, dataset_name(file.string() + ":" + path));
  DatasetPlan plan;
  plan.file = file;
  plan.path = name.path;
  plan.path_and_member = name.path_and_member();
  plan.selection = name.selection;
  // This comes first, since HDF5 opens all files that a data set refers to.
  plan.origin = trace_origin(opened, file, name.path, request.unwritten);
  const auto dataset = open_dataset(opened, file.string(), name.path);
  const std::string full_name = file.string() + ":" + plan.path_and_member;
  if (request.is_part && has_no_rows(dataset, full_name)) {
    plan.about.name = full_name;
    plan.about.shape = {0};
    return plan;
  }
  plan.about = describe(dataset, full_name, name.member);
  if (request.conventions) apply_conventions(dataset, plan);
  choose_elements(request, plan.about);
  plan.about.may_have_gaps = plan.origin.may_have_gaps;
  name_dimensions(dataset, plan);
  if (request.is_part) plan.units = hdf5::read_text_attribute(dataset.get(), "units");
  plan.holder = file_of(dataset);
  if (request.way == ReadWay::by_hdf5) return plan;
  plan.offset = offset_of_elements(dataset, plan.about, plan.holder);
  if (request.way == ReadWay::direct && !plan.offset) {
    throw UsageError(
        fmt::format("{} is not contiguous or has a format that only HDF5 knows, so it cannot be "
                    "read directly: leave input.read at auto, or store the data set contiguously",
                    plan.about.name));
  }
  if (plan.about.layout != H5D_CHUNKED) return plan;
  plan.chunks = ChunkStorage::of(dataset, plan.about.name);
  if (!plan.chunks) plan.origin.warnings.push_back(decoded_by_hdf5(plan.about));
  return plan;
}

void set_missing_element(Conversion& conversion, std::uint64_t bits) {
  const Conversion plain{.from = conversion.from, .to = conversion.to};
  convert(plain, reinterpret_cast<const std::byte*>(&bits), 1,
          reinterpret_cast<std::byte*>(&conversion.missing_element));
}

std::string access_of(const DatasetPlan& plan) {
  const DatasetDescription& about = plan.about;
  if (plan.offset) return contiguous_access;
  std::string text = plan.chunks ? "" : "H5Dread, ";
  switch (about.layout) {
    case H5D_CHUNKED:
      text += fmt::format("chunks {}", join(about.box, "x"));
      break;
    case H5D_COMPACT:
      text += "compact";
      break;
    case H5D_CONTIGUOUS:
      text += "contiguous";
      break;
    default:
      text += "virtual";
  }
  if (!about.filters.empty()) text += ", filtered";
  if (plan.chunks) {
    text += plan.chunks->filters.skips_all(0) ? ", parallel pread" : ", parallel decoding";
  }
  if (about.form.by_hdf5) {
    text += fmt::format(", {} to {} by HDF5", about.stored_as, name_of(about.form.type));
  }
  return text;
}

ChunkLayout layout_of(const DatasetDescription& about, ReadOrder read_order,
                      std::shared_ptr<DecodingMemory> memory) {
  ChunkLayout layout{.name = about.name,
                     .shape = about.shape,
                     .chunk = about.box,
                     .selection = {},
                     .element = about.stored_size,
                     .read_order = read_order,
                     .memory = std::move(memory)};
  for (const SourceDimension& each : about.dimensions) layout.selection.push_back(each.axis);
  return layout;
}

std::uint64_t selected_bytes(const DatasetDescription& about) {
  __extension__ using Wide = unsigned __int128;
  Wide bytes = about.stored_bytes;
  for (const SourceDimension& each : about.dimensions) bytes = bytes * each.axis.count;
  return static_cast<std::uint64_t>(bytes / saturating_product(about.shape));
}

}  // namespace shardstream::io
