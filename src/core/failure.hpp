// What the user is told of an exception, and the exit code that follows from it. Exceptions of the
// program say both themselves; this file knows those of the standard library.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace shardstream {

/// error.what(), or a sentence with the remedy for an exception of the standard library: a lack of
/// memory or threads, and a file that cannot be accessed. `memory_remedy` is what the user can do
/// about a lack of memory besides raising the limit: "use smaller batches".
std::string message_of(const std::exception& error, std::string_view memory_remedy = {});

/// The exit code of a process that ends with this error.
ExitCode code_of(const std::exception& error);

}  // namespace shardstream
