// A report as one HTML page that needs no other file, no script and no network.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/output/part_file.hpp"
#include "report/studies.hpp"

namespace shardstream::report {

struct Page {
  std::string html;
  std::string why_no_pictures;  ///< a sentence without a full stop; empty if all are there
};

/// Runs gnuplot for the figures, and reads once more one file a size. The same files give the same
/// page.
Page to_page(const Report& report);

/// The figures of the page as SVG documents, sN-FIGURE.svg in `folder` for the figures of section
/// N. Makes the folder, and replaces files of these names. Returns the files. Throws UsageError if
/// the folder cannot be made or gnuplot cannot draw all, Error if a file cannot be written.
std::vector<std::filesystem::path> write_figures(const Report& report,
                                                 const std::filesystem::path& folder);

/// Writes `html` under a name of its own and then gives it its name. Throws UsageError if `path`
/// exists and `overwrite` does not allow to replace it, or if it cannot be made.
void write_page(const std::string& html, const std::filesystem::path& path,
                io::Overwrite overwrite);

}  // namespace shardstream::report
