# Installation and packages: the program, its scripts and its inputs. README.md has the commands.

install(TARGETS shardstream RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY jobs inputs DESTINATION ${CMAKE_INSTALL_DATADIR}/shardstream
  USE_SOURCE_PERMISSIONS PATTERN quickstart EXCLUDE)
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

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
