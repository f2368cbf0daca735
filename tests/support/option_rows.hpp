// Rows of options of every kind, and their readers, for the tests of options.
#pragma once

#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "core/options.hpp"

namespace shardstream {

inline constexpr std::array pipeline_rows = {
    OptionRow{"pipeline.slots", OptionKind::count, "auto", "auto|1..4096", "Pinned slots a rank."},
    OptionRow{"pipeline.slot-size", OptionKind::size, "4MiB", "4KiB..1GiB", "Bytes in one slot."},
    OptionRow{"comm.timeout", OptionKind::duration, "300s", "1s..", "Patience with a peer."},
};
inline constexpr std::array other_rows = {
    OptionRow{"reduce.ops", OptionKind::list, "sum", "sum|min|max|mean",
              "The reductions; all of them are computed in one pass over the data, and each of "
              "them is verified by itself."},
    OptionRow{"reduce.missing", OptionKind::choice, "auto", "auto|ignore|propagate|error",
              "Use of NaNs."},
    OptionRow{"device.backend", OptionKind::choice, "auto", "auto|cuda|host", "Where to compute."},
    OptionRow{"output.file", OptionKind::text, "{workload}.h5", "", "The result file."},
    OptionRow{"output.note", OptionKind::text, "", "", "A line for the result file."},
    OptionRow{"scale.ranks", OptionKind::list, "auto", "auto|1..64", "Ranks of a study."},
    OptionRow{"scale.names", OptionKind::list, "a", "", "Names of a study."},
    OptionRow{"verify.enabled", OptionKind::flag, "true", "", "Whether to verify."},
    OptionRow{"verify.samples", OptionKind::count, "16", "..1e6", "Leaves to sample."},
    OptionRow{"verify.factor", OptionKind::number, "1.5", "0.5..1e3", "A factor."},
    OptionRow{"verify.seed", OptionKind::count, "auto", "", "Where sampling starts."},
};

inline OptionTable option_table() {
  return OptionTable{pipeline_rows, other_rows};
}

using Words = std::vector<std::string>;

inline CommandLine parse(const Words& arguments) {
  return option_table().parse_command_line(arguments);
}

inline Options resolve(const Words& arguments, const Words& environment = {},
                       const std::optional<std::filesystem::path>& ini = {}) {
  std::vector<const char*> entries;
  for (const std::string& entry : environment) entries.push_back(entry.c_str());
  entries.push_back(nullptr);
  return option_table().resolve(parse(arguments), entries.data(), ini);
}

/// A file of this test's own, gone with it.
class IniFile {
 public:
  explicit IniFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("shardstream_options_" + std::to_string(getpid()) + ".ini")) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~IniFile() { std::filesystem::remove(path_); }
  IniFile(const IniFile&) = delete;
  IniFile(IniFile&&) = delete;
  IniFile& operator=(const IniFile&) = delete;
  IniFile& operator=(IniFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string at(int line) const { return path_.string() + ":" + std::to_string(line); }

 private:
  std::filesystem::path path_;
};

}  // namespace shardstream
