// The device code of experiments. The build embeds the source files that CMakeLists.txt lists for
// each experiment, so that `bench help --code` and the page of `report` show it in any build.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/experiment.hpp"

namespace shardstream::experiments {

/// A source file. The path is relative to src/experiments.
struct SourceText {
  std::string_view path, text;
};
/// A file of an experiment.
struct SourceMember {
  std::string_view experiment, path;
};
// Made by cmake/embed_sources.cmake. The members are in the order in which they are shown.
std::span<const SourceText> source_texts();
std::span<const SourceMember> source_members();

/// A declaration at the level of namespaces, with the comments above it.
struct Declaration {
  std::string_view path;
  int line = 0;           ///< of the first line of `text`
  int end = 0;            ///< of the line behind `text`
  int kernel_line = 0;    ///< of __global__; 0: the declaration is no kernel
  std::string name = {};  ///< of the kernel, function, type or constant
  std::string text = {};  ///< whole lines
  bool has_device_code = false;
};

/// All declarations of a file in the format of this project.
std::vector<Declaration> declarations_of(const SourceText& source);

/// The declarations that a reader of an experiment needs to understand its kernels: those with
/// device code, and the constants, types and aliases that they name. In the order of the files.
std::vector<Declaration> code_of(const Experiment& experiment);

/// "src/experiments/ladders/reduction.cu:120": the file and line of a kernel, or of the first line
/// of another declaration.
std::string place_of(const Declaration& declaration);

/// For `bench help --code`: each declaration below its file and line, or a sentence if there are
/// none.
std::string code_text(const Experiment& experiment);

}  // namespace shardstream::experiments
