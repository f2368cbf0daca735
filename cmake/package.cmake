# Installation and packages: the program, its scripts and its inputs. README.md has the commands.

# The installed pages do not name quickstart, which builds the program.
set(documents ${PROJECT_BINARY_DIR}/documents)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS README.md jobs/README.md)
file(READ README.md page)
string(FIND "${page}" "## Install\n" begin)
string(FIND "${page}" "## A first run\n" end)
if(begin EQUAL -1 OR end LESS begin)
  message(FATAL_ERROR "README.md has no section Install before the section A first run")
endif()
string(SUBSTRING "${page}" 0 ${begin} before)
string(SUBSTRING "${page}" ${end} -1 after)
file(WRITE ${documents}/README.md "${before}## Install

This copy is installed. [`cmake/README.md`](cmake/README.md) lists the libraries that the program needs. If you are root:

```console
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
```

${after}")
file(READ jobs/README.md page)
string(REGEX REPLACE "\\| `quickstart` [^\n]*\n" "" page "${page}")
file(WRITE ${documents}/jobs/README.md "${page}")

install(TARGETS shardstream RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY jobs inputs DESTINATION ${CMAKE_INSTALL_DATADIR}/shardstream
  USE_SOURCE_PERMISSIONS PATTERN quickstart EXCLUDE PATTERN jobs/README.md EXCLUDE)
# The pages keep their places, so that their links lead to each other.
install(DIRECTORY src kernels cmake tests DESTINATION ${CMAKE_INSTALL_DATADIR}/shardstream
  FILES_MATCHING PATTERN "*.md")
install(FILES ${documents}/README.md DESTINATION ${CMAKE_INSTALL_DATADIR}/shardstream)
install(FILES ${documents}/jobs/README.md DESTINATION ${CMAKE_INSTALL_DATADIR}/shardstream/jobs)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

# The program writes its man page and its completions itself.
install(CODE "
  file(MAKE_DIRECTORY \"${documents}\")
  foreach(document \"man>shardstream.1\" \"completion bash>shardstream\" \"completion zsh>_shardstream\")
    string(REGEX MATCH \"^(.*)>(.*)$\" matched \"\${document}\")
    set(file \"${documents}/\${CMAKE_MATCH_2}\")
    string(REPLACE \" \" \";\" words \"\${CMAKE_MATCH_1}\")
    execute_process(COMMAND \"$<TARGET_FILE:shardstream>\" \${words}
      OUTPUT_FILE \"\${file}\" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()")
install(FILES ${documents}/shardstream.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${documents}/shardstream DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${documents}/_shardstream DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)

# `cpack` makes a package for this distribution. dpkg-shlibdeps finds the packages of the libraries
# that the program is linked with.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "the authors of shardstream <shardstream@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "statistics and matrix products of data beyond GPU memory")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "openmpi-bin, openssh-client")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gnuplot-nox, libopenblas0-pthread")
include(CPack)
