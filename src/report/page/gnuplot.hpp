// Pictures drawn by gnuplot, an optional program that is only needed at run time.
#pragma once

#include <string>
#include <vector>

namespace shardstream::report::page {

/// The pictures of some scripts.
struct Drawing {
  /// For each script, gnuplot's SVG document, or an empty text if there is none.
  std::vector<std::string> pictures;
  std::string why_not;  ///< the reason for missing pictures, without a full stop; else empty
};

/// Draws all scripts in one process. A script must contain only plot commands and numbers:
/// gnuplot's language can start programs, so text from files is not allowed.
Drawing draw(const std::vector<std::string>& scripts);

/// The SVG document as part of an HTML page: without prologue and titles, with `prefix` before each
/// id, and with the page's text colour instead of black.
std::string inlined(const std::string& picture, const std::string& prefix);

}  // namespace shardstream::report::page
