// The options that make a study: what study.ini keeps and what a study is recognised by.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/options.hpp"

namespace shardstream::scale {

/// Options by key, in an order that counts.
using Values = std::vector<std::pair<std::string, std::string>>;

/// The options of a study that are not the default, and those by which reports know which launches
/// are missing; in the order of their keys.
Values chosen(const Options& options);

/// The text of study.ini: `values` and the study's name.
std::string ini_of(const Values& values, const std::string& name);

/// "KEY was VALUE and is VALUE now" of the first option that differs; empty if none does. `then` is
/// what read_study_ini() returns.
std::string first_difference(std::map<std::string, std::string> then, const Values& now);

}  // namespace shardstream::scale
