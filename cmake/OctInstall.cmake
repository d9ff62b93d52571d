# SPDX-License-Identifier: Apache-2.0
# What `make install` puts where: program, both libraries, the public headers, pkg-config file, CMake
# package, manual. Everything is relocatable: no installed file names the prefix.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/octet DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS ${octet_libraries} EXPORT octetTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET octet_program)
    install(TARGETS octet_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET octet_program)
    install(DIRECTORY experiments DESTINATION ${CMAKE_INSTALL_DATADIR}/octet
        FILES_MATCHING PATTERN "*.csv" PATTERN "*.yaml")
endif()
if(OCT_MANUAL)
    install(FILES ${OCT_MANUAL} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# pkg-config: our own requirements stand in Libs.private as plain options. Requires.private would ask
# for the static closure of libcurl, which few machines have installed.
set(pc_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH OCT_PC_PREFIX /${pc_folder} /)
string(REGEX REPLACE "/$" "" OCT_PC_PREFIX "${OCT_PC_PREFIX}")
list(JOIN OCT_LIBRARIES " " OCT_PC_LIBRARIES)
configure_file(cmake/octet.pc.in octet.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/octet.pc DESTINATION ${pc_folder})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/octet)
configure_package_config_file(cmake/octetConfig.cmake.in octetConfig.cmake
    INSTALL_DESTINATION ${package_folder})
# As the soname: while the major version is 0, another minor version is another library.
write_basic_package_version_file(octetConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/octetConfig.cmake ${CMAKE_BINARY_DIR}/octetConfigVersion.cmake
    DESTINATION ${package_folder})
install(EXPORT octetTargets NAMESPACE octet:: DESTINATION ${package_folder})
