# Writes OUTPUT, a C++ file with the texts of source files, for experiments/code.hpp. LIST has a line
# "EXPERIMENT FILE" for each file of an experiment, relative to FOLDER.
cmake_minimum_required(VERSION 3.24)
file(STRINGS ${LIST} lines)
set(texts "")
set(members "")
set(files "")
foreach(line IN LISTS lines)
  string(REPLACE " " ";" words "${line}")
  list(GET words 0 experiment)
  list(GET words 1 file)
  string(APPEND members "    {\"${experiment}\", \"${file}\"},\n")
  if(file IN_LIST files)
    continue()
  endif()
  list(APPEND files ${file})
  file(READ ${FOLDER}/${file} text)
  string(APPEND texts "    {\"${file}\", R\"embedded(${text})embedded\"sv},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"experiments/code.hpp\"

namespace shardstream::experiments {
namespace {

using std::string_view_literals::operator\"\"sv;

// The literals know their lengths: the compiler need not count the characters.
constexpr SourceText texts[] = {
${texts}};

constexpr SourceMember members[] = {
${members}};

}  // namespace

std::span<const SourceText> source_texts() {
  return texts;
}
std::span<const SourceMember> source_members() {
  return members;
}

}  // namespace shardstream::experiments
")
