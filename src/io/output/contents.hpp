// The kinds of output files, and the first bytes by which this program recognises its own.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace shardstream::io {

/// The contents of a file. Error messages depend on it, and with Overwrite::own a file may only
/// replace files with the same contents.
enum class Contents { result, generated, trace, page, figure, table, extra_p };

/// "a page of report", for messages.
std::string_view word_of(Contents contents);

/// The reason why a file with these contents must not have the name `path`, whose extension
/// promises another format, with the remedy; empty if there is none.
std::string promises_other_format(Contents contents, const std::filesystem::path& path);

/// Throws UsageError if the folder `path`, which `option` names, has no name or the extension of a
/// file.
void expect_folder_name(const std::filesystem::path& path, const std::string& option);

/// The root attribute `schema` of results, and of files that `generate` writes.
inline constexpr std::string_view result_schema = "shardstream";
inline constexpr std::string_view generated_schema = "shardstream-data";

/// The first bytes of text files.
inline constexpr std::string_view trace_start =
    "{\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"run_uuid\":";
inline constexpr std::string_view page_start = "<!DOCTYPE html>\n<!-- shardstream report -->";
inline constexpr std::string_view figure_start = "<!-- shardstream report -->\n<svg ";
inline constexpr std::string_view table_start =
    "study,mode,workload,ranks,hosts,replicate,repetition,time [s],work [";
inline constexpr std::string_view extra_p_start = "{\"program\":\"shardstream\",\"params\":";

struct TextMark {
  Contents contents;
  std::string_view start;
};
inline constexpr std::array text_marks = {
    TextMark{Contents::trace, trace_start}, TextMark{Contents::page, page_start},
    TextMark{Contents::figure, figure_start}, TextMark{Contents::table, table_start},
    TextMark{Contents::extra_p, extra_p_start}};

/// The number of bytes that suffice to recognise a text file.
inline constexpr std::size_t max_text_mark = 128;

}  // namespace shardstream::io
