// A report as one self-contained HTML page without scripts, which needs no network.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/output/part_file.hpp"
#include "report/studies.hpp"

namespace shardstream::report {

struct Page {
  std::string html;
  std::string why_no_pictures;  ///< without a full stop; empty if no picture is missing
};

/// Runs gnuplot for the figures, and reads one or two files per size again. The same files give the
/// same page.
Page to_page(const Report& report);

/// Writes the figures of the page as SVG documents into `folder`: sN-FIGURE.svg for section N.
/// Creates the folder, and replaces files with these names. Returns the paths. Throws UsageError if
/// the folder cannot be created or gnuplot cannot draw all figures, and Error if a file cannot be
/// written.
std::vector<std::filesystem::path> write_figures(const Report& report,
                                                 const std::filesystem::path& folder);

/// Writes `html` under a temporary name and then gives it its final name. Throws UsageError if
/// `path` exists and `overwrite` does not allow replacing it, or if it cannot be created.
void write_page(const std::string& html, const std::filesystem::path& path,
                io::Overwrite overwrite);

}  // namespace shardstream::report
