// Decides whether an output may take the name that the user gave it. Every output of the program is
// checked here, so that no file is lost, neither an input nor a file of another program.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/options.hpp"
#include "io/description/origin.hpp"
#include "io/output/contents.hpp"

namespace shardstream::io {

/// The files that output.overwrite allows to replace.
enum class Overwrite {
  never,
  own,      ///< files of the same Contents that this program has written
  anything  ///< any regular file
};
Overwrite overwrite_of(const Options& options);

/// The name of an output and the conditions under which it may replace a file.
struct Destination {
  std::filesystem::path path;
  Contents contents;
  Overwrite overwrite = Overwrite::never;
  std::vector<InputFile> inputs = {};  ///< of the command; never replaced, under any name
  std::string option = "output.file";  ///< for messages; it names the output
};

/// The reason why the output cannot take its name now, as a sentence with the remedy. Nothing if
/// there is no file with this name, or if it may be replaced: an unfinished result, or what
/// `overwrite` allows. Inputs, folders, devices, FIFOs, sockets and symbolic links are never
/// replaced.
std::optional<std::string> objection(const Destination& destination);

/// Throws UsageError, which names the option, if there is an objection or the path has no file
/// name.
void expect_free(const Destination& destination);

}  // namespace shardstream::io
