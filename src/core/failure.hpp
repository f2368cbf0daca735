// The message and the exit code for an exception. An Error has both; this file provides them for
// exceptions of the standard library.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace shardstream {

/// error.what(), or a sentence with the remedy for an exception of the standard library: a lack of
/// memory or threads, a file that cannot be accessed, or a defect of the program. `memory_remedy`
/// is the remedy for a lack of memory besides raising the limit: "use smaller batches".
std::string message_of(const std::exception& error, std::string_view memory_remedy = {});

/// The exit code of a process that ends with this error.
ExitCode code_of(const std::exception& error);

}  // namespace shardstream
