#include "io/source/joined/join.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/source/joined/agreement.hpp"
#include "io/source/joined/coordinates.hpp"
#include "io/source/joined/joined_source.hpp"
#include "io/source/selection.hpp"

namespace shardstream::io {
namespace {

/// All data sets with rows, and the origin of all data sets.
struct Looks {
  std::vector<DatasetPlan> plans;
  std::optional<std::string> selection;  ///< the text
  Origin origin;
};

/// One data set, and its coordinates.
struct Look {
  DatasetPlan plan;
  AllCoordinates coordinates;
};

Look look_at(const std::string& file, const std::string& path, const DatasetRequest& request) {
  const auto opened = open_data_file(file);
  Look look{plan_dataset(*opened, file, path, request), {}};
  if (look.plan.about.shape[0] > 0) look.coordinates = read_all_coordinates(*opened, look.plan);
  return look;
}

/// Looks at all files. The first one tells what `path` means.
Looks look_at_all(std::span<const std::string> files, std::string path,
                  const DatasetRequest& request) {
  Looks looks;
  std::vector<Origin> origins;
  std::vector<DatasetPlace> joined;
  std::vector<std::string> without_rows;
  CoordinateCheck check;
  for (const std::string& file : files) {
    Look look;
    try {
      look = look_at(file, path, request);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{} ('{}' is one of the {} files that match)", error.what(),
                                   file, files.size()),
                       error.where());
    }
    DatasetPlan& plan = look.plan;
    if (&file == &files.front()) {
      looks.selection = plan.selection;
      path = plan.path_and_member;
    }
    origins.push_back(plan.origin);
    if (plan.about.shape[0] == 0) {
      without_rows.push_back(plan.about.name);
      continue;
    }
    if (!looks.plans.empty()) expect_joinable(looks.plans.front(), plan);
    check.add(plan, std::move(look.coordinates));
    joined.push_back(
        {std::filesystem::absolute(plan.file).lexically_normal(), plan.path, plan.about.shape[0]});
    looks.plans.push_back(std::move(plan));
  }
  if (looks.plans.empty()) {
    throw UsageError("none of the files has any rows: choose other files");
  }
  if (looks.plans.front().about.dimensions.empty() && looks.plans.size() > 1) {
    throw UsageError(fmt::format(
        "{} is a single number, without a dimension along which files could be joined: name a data "
        "set with dimensions, or one file",
        looks.plans.front().about.name));
  }
  agree_on_missing_element(looks.plans);
  looks.origin = unite(origins);
  looks.origin.joined = std::move(joined);
  looks.origin.mixed_units = check.mixed_units();
  if (std::string disorder = check.disorder(); !disorder.empty()) {
    looks.origin.warnings.push_back(std::move(disorder));
  }
  if (!without_rows.empty()) {
    looks.origin.warnings.push_back(fmt::format("{} without rows left out: {}",
                                                counted(without_rows.size(), "file"),
                                                join_first(without_rows, 4, ", ")));
  }
  return looks;
}

/// The dimensions of the joined data set, with all of their elements.
std::vector<SourceDimension> joined_dimensions(const std::vector<DatasetPlan>& plans) {
  std::vector<SourceDimension> dimensions = plans.front().dimensions;
  std::uint64_t rows = 0;
  for (const DatasetPlan& plan : plans) rows += plan.about.shape[0];
  dimensions[0].extent = dimensions[0].axis.count = rows;
  std::uint64_t max = INT64_MAX;
  for (const SourceDimension& dimension : dimensions) max /= dimension.extent;
  if (max == 0) throw UsageError("the files have 2^63 elements or more together: choose fewer");
  return dimensions;
}

/// Sets the axes to the selection, which becomes a part of `name`.
void select(Looks& looks, std::vector<SourceDimension>& dimensions, std::string& name) {
  if (!looks.selection) return;
  std::vector<Dimension> all;
  Extents extents;
  for (const SourceDimension& each : dimensions) {
    all.push_back({.name = each.name,
                   .extent = each.extent,
                   .has_coordinates = each.extent <= max_coordinates});
    extents.push_back(each.extent);
  }
  const Selection chosen = resolve(
      SelectionText::parse(*looks.selection), all,
      [&](std::size_t d) {
        if (d > 0) return read_coordinates(looks.origin.joined.front(), d);
        const std::string& mixed = looks.origin.mixed_units;
        if (!mixed.empty()) throw UsageError(mixed + ": select by position");
        return joined_coordinates(looks.origin);
      },
      name, &looks.origin.beyond);
  for (std::size_t d = 0; d < chosen.size(); ++d) dimensions[d].axis = chosen[d];
  name += text_of(chosen, extents);
}

/// The parts with selected elements.
std::vector<JoinedPart> parts_of(std::vector<DatasetPlan> plans,
                                 const std::vector<SourceDimension>& dimensions) {
  std::vector<JoinedPart> parts;
  const Axis& rows = dimensions[0].axis;
  std::uint64_t offset = 0, elements = 0;
  for (DatasetPlan& plan : plans) {
    const std::uint64_t extent = plan.about.shape[0], first = rows.count_below(offset);
    const Range own{first, rows.count_below(offset + extent) - first};
    if (own.count > 0) {
      for (std::size_t d = 1; d < dimensions.size(); ++d) {
        plan.dimensions[d].axis = dimensions[d].axis;
      }
      plan.dimensions[0].axis = {rows[first] - offset, rows.step, own.count, rows.is_index};
      std::uint64_t count = 1;
      for (const SourceDimension& each : plan.dimensions) count *= each.axis.count;
      parts.push_back({std::move(plan), offset, own, {elements, count}});
      elements += count;
    }
    offset += extent;
  }
  return parts;
}

}  // namespace

std::unique_ptr<Source> open_joined_source(const std::string& pattern,
                                           std::span<const std::string> files,
                                           const std::string& path, DatasetRequest request) {
  request.is_part = true;
  Looks looks = look_at_all(files, path, request);
  std::vector<SourceDimension> dimensions = joined_dimensions(looks.plans);
  std::string name = pattern + ":" + looks.plans.front().path_and_member;
  select(looks, dimensions, name);
  if (request.rows > 0) take_rows(dimensions, request.rows, name);
  const std::string& along = dimensions[0].name;
  looks.origin.notes.push_back(
      fmt::format("{} match '{}', from '{}' to '{}'; they are joined along dimension 0{}",
                  counted(files.size(), "file"), pattern, files.front(), files.back(),
                  along.empty() ? "" : fmt::format(" ({})", along)));
  auto source = std::make_unique<JoinedSource>(std::move(name), dimensions,
                                               parts_of(std::move(looks.plans), dimensions),
                                               std::move(request));
  source->set_origin(std::move(looks.origin));
  return source;
}

}  // namespace shardstream::io
