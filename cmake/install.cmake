# SPDX-License-Identifier: Apache-2.0
# cmake --install: headers, libayatori.a, libayatori_net.a, the CMake package `ayatori`, ayatori.pc and ayatori-net.pc (the
# launcher: tools/). Included last by the project's list; tests/system/install builds outside programs against the result.
include(CMakePackageConfigHelpers)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(_libraries ayatori ayatori_net)
if(TARGET ayatori_local_new) # the library without its operator new and delete; ayatori::local_new
  list(APPEND _libraries ayatori_local_new)
  set_target_properties(ayatori_local_new PROPERTIES EXPORT_NAME local_new)
  # A program that links both, itself or through a library, is an error: one of them would be silently ignored.
  set_target_properties(ayatori PROPERTIES INTERFACE_AYATORI_OPERATOR_NEW "of the space")
  set_target_properties(ayatori_local_new PROPERTIES INTERFACE_AYATORI_OPERATOR_NEW "of the C library (local_new)")
  set_property(TARGET ayatori ayatori_local_new APPEND PROPERTY COMPATIBLE_INTERFACE_STRING AYATORI_OPERATOR_NEW)
endif()
install(TARGETS ${_libraries} EXPORT ayatoriTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ayatori)
install(EXPORT ayatoriTargets NAMESPACE ayatori:: DESTINATION ${_package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/ayatoriConfig.cmake.in ${PROJECT_BINARY_DIR}/ayatoriConfig.cmake
                              INSTALL_DESTINATION ${_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ayatoriConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ayatoriConfig.cmake ${PROJECT_BINARY_DIR}/ayatoriConfigVersion.cmake
        DESTINATION ${_package_dir})

# The file may be moved with its prefix: it finds that from where it lies.
file(RELATIVE_PATH AYATORI_PC_UP /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
string(REGEX REPLACE "/$" "" AYATORI_PC_UP "${AYATORI_PC_UP}")
# The same link line as ayatori::ayatori's, for compilers called without CMake. There is only a static library, so
# what it needs stands in Libs, and a C program needs no --static.
configure_file(${CMAKE_CURRENT_LIST_DIR}/ayatori.pc.in ${PROJECT_BINARY_DIR}/ayatori.pc @ONLY)
configure_file(${CMAKE_CURRENT_LIST_DIR}/ayatori-net.pc.in ${PROJECT_BINARY_DIR}/ayatori-net.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ayatori.pc ${PROJECT_BINARY_DIR}/ayatori-net.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
