# `cmake --install`: library, headers, program, and what find_package and pkg-config need.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(fusedmoe PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})  # 0.x: every minor may break

install(TARGETS fusedmoe EXPORT fusedmoe_targets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/fusedmoe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(FUSEDMOE_BUILD_CLI)
  file(RELATIVE_PATH lib_from_bin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(fusedmoe_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${lib_from_bin}")
  install(TARGETS fusedmoe_cli)
  install(FILES ${PROJECT_SOURCE_DIR}/tools/completion/fusedmoe.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME fusedmoe)
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/fusedmoe)
install(EXPORT fusedmoe_targets NAMESPACE fusedmoe:: DESTINATION ${package_dir})
configure_package_config_file(cmake/fusedmoe-config.cmake.in fusedmoe-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(fusedmoe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/fusedmoe-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/fusedmoe-config-version.cmake
  DESTINATION ${package_dir})

# Found from the file's own place, so that an installed tree may be moved.
file(RELATIVE_PATH prefix_from_pkgconfig /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/fusedmoe.pc.in fusedmoe.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/fusedmoe.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
