#include "io/hdf5/member.hpp"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/hdf5/stored_type.hpp"

namespace shardstream::io {
namespace {

constexpr auto what = "cannot get the members of a type";
constexpr std::size_t max_listed = 8, max_members = 1000;
constexpr int max_depth = 8;

hdf5::Type type_of_member(hid_t compound, unsigned member) {
  return hdf5::Type(H5Tget_member_type(compound, member), what);
}

/// Nothing if there is no such member. The names of members may contain dots themselves.
std::optional<Member> member_at(hid_t stored, const std::string& name) {
  if (H5Tget_class(stored) != H5T_COMPOUND) return std::nullopt;
  for (auto end = name.size(); end != std::string::npos && end > 0;
       end = name.rfind('.', end - 1)) {
    const int index = H5Tget_member_index(stored, name.substr(0, end).c_str());
    if (index < 0) continue;
    const auto member = static_cast<unsigned>(index);
    const std::uint64_t offset = H5Tget_member_offset(stored, member);
    hdf5::Type type = type_of_member(stored, member);
    if (end == name.size()) return Member{offset, std::move(type)};
    if (auto inner = member_at(type.get(), name.substr(end + 1))) {
      inner->offset += offset;
      return inner;
    }
  }
  return std::nullopt;
}

void collect_numeric(hid_t compound, const std::string& prefix, int depth,
                     std::vector<std::string>& found) {
  const auto count = static_cast<unsigned>(hdf5::check(H5Tget_nmembers(compound), what));
  for (unsigned i = 0; i < count && found.size() < max_members; ++i) {
    char* const text = H5Tget_member_name(compound, i);
    if (text == nullptr) hdf5::fail(what);
    const std::string name = prefix + text;
    H5free_memory(text);
    const hdf5::Type type = type_of_member(compound, i);
    if (number_type(type.get()).valid()) {
      found.push_back(name);
    } else if (H5Tget_class(type.get()) == H5T_COMPOUND && depth < max_depth) {
      collect_numeric(type.get(), name + '.', depth + 1, found);
    }
  }
}

/// "name one of energy, pos.x and 3 more"
std::string remedy_for_member(hid_t stored) {
  const auto members = numeric_members(stored);
  return members.empty() ? "none of its members holds numbers, so name another data set"
                         : "name one of " + join_first(members, max_listed, ", ");
}

}  // namespace

Member find_member(hid_t stored, const std::string& name, const std::string& dataset) {
  if (H5Tget_class(stored) != H5T_COMPOUND) {
    throw UsageError(fmt::format("{} holds {}, which have no member '{}': leave {{{}}} out",
                                 dataset, describe_type(stored), name, name));
  }
  auto member = member_at(stored, name);
  if (!member) {
    throw UsageError(
        fmt::format("{} has no member '{}': {}", dataset, name, remedy_for_member(stored)));
  }
  if (!number_type(member->type.get()).valid()) {
    throw UsageError(fmt::format("the member '{}' of {} holds {}: {}", name, dataset,
                                 describe_type(member->type.get()), remedy_for_member(stored)));
  }
  constexpr std::uint64_t max_bytes = 256 << 20;
  const std::uint64_t bytes = H5Tget_size(stored), size = H5Tget_size(member->type.get());
  if (size > bytes || member->offset > bytes - size) {
    throw UsageError(fmt::format(
        "{} is damaged (its member '{}' has bytes {} to {} of {}): copy or write it again", dataset,
        name, member->offset, member->offset + size, bytes));
  }
  if (bytes > max_bytes) {
    throw UsageError(fmt::format(
        "each element of {} has {} bytes, more than the {} that are read at once: write "
        "the member '{}' to a data set of its own",
        dataset, bytes, max_bytes, name));
  }
  return std::move(*member);
}

std::vector<std::string> numeric_members(hid_t stored) {
  std::vector<std::string> found;
  if (H5Tget_class(stored) == H5T_COMPOUND) collect_numeric(stored, "", 0, found);
  return found;
}

std::string remedy_without_numbers(hid_t stored, const std::string& dataset) {
  const auto members = numeric_members(stored);
  if (members.empty()) return "name a data set of integers or floating-point numbers";
  return fmt::format("name a member with numbers ({}) as {}{{{}}}",
                     join_first(members, max_listed, ", "), dataset, members.front());
}

}  // namespace shardstream::io
