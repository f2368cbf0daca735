#include "io/output/contents.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"

namespace shardstream::io {
namespace {

/// A format of other programs, by its extension.
struct KnownFormat {
  std::string_view extension, name;
  std::string_view from_result;  ///< how to get it from a result; empty: its tables with h5py
  std::string_view from_report;  ///< the option of `report` that writes it; empty: none
};

constexpr std::array known_formats = {
    KnownFormat{".h5", "HDF5", "", ""},
    KnownFormat{".hdf5", "HDF5", "", ""},
    KnownFormat{".nc", "netCDF", "", ""},
    KnownFormat{".csv", "CSV", "", "--csv FOLDER"},
    KnownFormat{".tsv", "TSV", "", "--csv FOLDER"},
    KnownFormat{".json", "JSON", "print its numbers with --json", "--json"},
    KnownFormat{".txt", "text", "redirect standard output, which has its numbers", ""},
    KnownFormat{".md", "Markdown", "make a table with report --markdown", "--markdown"},
    KnownFormat{".tex", "LaTeX", "make a table with report --latex", "--latex"},
    KnownFormat{".html", "HTML", "make a page with report -o", ""},
    KnownFormat{".svg", "SVG", "draw figures with report --svg", "--svg FOLDER"},
    KnownFormat{".pdf", "PDF", "make a page with report -o and print it in a browser", ""},
    KnownFormat{".png", "PNG", "draw figures with report --svg", "--svg FOLDER"},
    KnownFormat{".npy", "npy (NumPy)", "", ""},
    KnownFormat{".npz", "npz (NumPy)", "", ""},
    KnownFormat{".parquet", "Parquet", "", ""},
    KnownFormat{".zarr", "Zarr", "", ""},
    KnownFormat{".xlsx", "a spreadsheet", "", "--csv FOLDER"}};

const KnownFormat* format_of(const std::filesystem::path& path) {
  const auto* const found =
      std::ranges::find(known_formats, path.extension().string(), &KnownFormat::extension);
  return found == known_formats.end() ? nullptr : found;
}

}  // namespace

std::string_view word_of(Contents contents) {
  switch (contents) {
    case Contents::result:
      return "a result of a run";
    case Contents::generated:
      return "a file of generate";
    case Contents::trace:
      return "a trace of a run";
    case Contents::page:
      return "a page of report";
    case Contents::figure:
      return "a figure of report";
    case Contents::table:
      return "a table of report";
    case Contents::extra_p:
      return "a file of report for Extra-P";
  }
  throw ContractError("unknown contents of an output");
}

std::string promises_other_format(Contents contents, const std::filesystem::path& path) {
  const bool is_page = contents == Contents::page;
  const bool is_hdf5 = contents == Contents::result || contents == Contents::generated;
  const KnownFormat* const format = format_of(path);
  if (format == nullptr || (!is_page && !is_hdf5)) return {};
  const bool is_right = format->extension == ".html"
                            ? is_page
                            : is_hdf5 && (format->name == "HDF5" || format->name == "netCDF");
  if (is_right) return {};
  std::filesystem::path other = path;
  other.replace_extension(is_page ? ".html" : ".h5");
  const std::string start =
      fmt::format("'{}' would not be {}, since {} is {}: name it {}", path.string(), format->name,
                  word_of(contents), is_page ? "HTML" : "an HDF5 file", other.string());
  if (is_page) {
    return format->from_report.empty() ? start
                                       : fmt::format("{}, or use {}", start, format->from_report);
  }
  return fmt::format("{}, and {}", start,
                     format->from_result.empty() ? "convert its tables with h5py and pandas"
                                                 : format->from_result);
}

void expect_folder_name(const std::filesystem::path& path, const std::string& option) {
  if (path.empty()) {
    throw UsageError(fmt::format("{}: '' has no folder name: add one", option));
  }
  if (format_of(path) == nullptr) return;
  std::filesystem::path other = path;
  throw UsageError(fmt::format(
      "{}: '{}' looks like the name of a file, but the option names a folder: name it {}", option,
      path.string(), other.replace_extension().string()));
}

}  // namespace shardstream::io
