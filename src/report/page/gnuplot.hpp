// Pictures by gnuplot, a program that is needed at run time only, and only for them.
#pragma once

#include <string>
#include <vector>

namespace shardstream::report::page {

/// The pictures of some scripts.
struct Drawing {
  /// For each script its SVG document as gnuplot writes it, or empty text if there is none.
  std::vector<std::string> pictures;
  std::string why_not;  ///< why pictures are missing, a sentence without a full stop; else empty
};

/// Draws all scripts in one process. A script has plot commands and numbers only: gnuplot's
/// language can start programs, so no text from a file may be in it.
Drawing draw(const std::vector<std::string>& scripts);

/// The SVG document as part of an HTML page: without prologue and titles, with `prefix` before each
/// id, and with the page's text colour instead of black.
std::string inlined(const std::string& picture, const std::string& prefix);

}  // namespace shardstream::report::page
