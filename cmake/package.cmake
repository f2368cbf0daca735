# Installation and packages: the program, its scripts and its inputs. README.md has the commands.

install(TARGETS shardstream RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY jobs inputs DESTINATION ${CMAKE_INSTALL_DATADIR}/shardstream
  USE_SOURCE_PERMISSIONS PATTERN quickstart EXCLUDE)
# The pages keep their places, so that their links lead to each other.
install(DIRECTORY src kernels cmake tests DESTINATION ${CMAKE_INSTALL_DATADIR}/shardstream
  FILES_MATCHING PATTERN "*.md")
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DATADIR}/shardstream)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

# The program writes its man page and its completions itself.
set(documents ${PROJECT_BINARY_DIR}/documents)
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
