# Installation and packaging: the program, its scripts and its inputs.

install(TARGETS shardstream RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY jobs inputs DESTINATION ${CMAKE_INSTALL_DATADIR}/shardstream USE_SOURCE_PERMISSIONS)
