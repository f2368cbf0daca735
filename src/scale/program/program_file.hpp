// The file of a studied program, as a command line names it.
#pragma once

#include <filesystem>
#include <string>

namespace shardstream::scale::program {

/// The absolute path of the program `name`: a path, or the name of a file in PATH. Throws
/// UsageError with the cause and a remedy if there is no such program.
std::filesystem::path expect_program(const std::string& name);

/// The program that a word of a command line probably means if the word names no workload and no
/// data: an executable file in PATH or in the current folder ("./NAME"), or a path that is not a
/// folder. Empty for other words.
std::string likely_program(const std::string& word);

}  // namespace shardstream::scale::program
