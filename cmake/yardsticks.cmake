# Programs that measure performance. They are not tests, since machines may be shared.

# shardstream_yardstick(NAME SOURCES file... [USES component...] [LINKS library...])
# tests/NAME in the build folder, built by the target `yardsticks`.
add_custom_target(yardsticks)
function(shardstream_yardstick name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;USES;LINKS")
  add_executable(${name} EXCLUDE_FROM_ALL ${arg_SOURCES})
  list(TRANSFORM arg_USES PREPEND shardstream_)
  target_link_libraries(${name} PRIVATE shardstream_flags ${arg_USES} ${arg_LINKS})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_dependencies(yardsticks ${name})
endfunction()
