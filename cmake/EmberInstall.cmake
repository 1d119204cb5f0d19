# Installs the library so that find_package(ember CONFIG) gives ember::ember. The CUDA object, which
# driver/cuda installs, lies beside libember.so, where the library looks for it.

option(EMBER_INSTALL "Install ember together with this project" ${PROJECT_IS_TOP_LEVEL})
if(NOT EMBER_INSTALL)
  return()
endif()

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ember)

# Only ember itself is exported: its parts and ember_flags are folded into it.
install(TARGETS ember EXPORT emberTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT emberTargets NAMESPACE ember:: DESTINATION ${package_dir})

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(EMBER_DUCC0_INCLUDE_DIR)
  # What it was compiled with has to be named by its own notice, which stands in this file.
  install(FILES ${EMBER_DUCC0_INCLUDE_DIR}/ducc0/fft/fft.h DESTINATION ${CMAKE_INSTALL_DOCDIR}/ducc0)
endif()

configure_package_config_file(cmake/emberConfig.cmake.in ${PROJECT_BINARY_DIR}/emberConfig.cmake
  INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/emberConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/emberConfig.cmake ${PROJECT_BINARY_DIR}/emberConfigVersion.cmake
  DESTINATION ${package_dir})
