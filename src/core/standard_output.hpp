// Standard output, which is for results alone: what could not be written there is an error.
#pragma once

#include <string_view>

namespace shardstream {

/// Writes `text` to standard output, all of it and at once. Throws Error when that fails;
/// `consolation` ends its sentence: "; the result is complete in FILE". Not thread-safe.
void print_output(std::string_view text, std::string_view consolation = {});

/// To be called before any file is opened. One of the three standard streams that whoever started
/// this process had closed is opened, without its purpose: else the next file would get its number,
/// and what is printed.
void keep_standard_streams();

}  // namespace shardstream
