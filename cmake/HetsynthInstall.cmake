# `cmake --install` and packages: the program, the library, the headers that models and other programs include, examples
# and documents. Program and library find their headers beside themselves (dsl/frontend/model.h), so that an installed
# tree can be moved.

install(TARGETS hetsynth RUNTIME DESTINATION bin)
install(TARGETS hetsynth_shared EXPORT hetsynthTargets LIBRARY DESTINATION lib)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/dsl/include/hetsynth DESTINATION lib/hetsynth/include FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/dsl/ops DESTINATION lib/hetsynth/include/dsl FILES_MATCHING PATTERN "*.h" PATTERN "support" EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/api/include/hetsynth DESTINATION lib/hetsynth/include FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_BINARY_DIR}/generated/hetsynth/operators.h ${PROJECT_BINARY_DIR}/generated/hetsynth/api_version.h
  DESTINATION lib/hetsynth/include/hetsynth)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION share/hetsynth)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION share/doc/hetsynth FILES_MATCHING PATTERN "*.md")
install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION share/doc/hetsynth)

# `find_package(hetsynth)`, in an installed tree and, with hetsynth_DIR, in the build tree.
include(CMakePackageConfigHelpers)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/hetsynthConfig.cmake.in ${PROJECT_BINARY_DIR}/hetsynthConfig.cmake
  INSTALL_DESTINATION lib/cmake/hetsynth)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hetsynthConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hetsynthConfig.cmake ${PROJECT_BINARY_DIR}/hetsynthConfigVersion.cmake
  DESTINATION lib/cmake/hetsynth)
install(EXPORT hetsynthTargets NAMESPACE hetsynth:: DESTINATION lib/cmake/hetsynth)
export(EXPORT hetsynthTargets NAMESPACE hetsynth:: FILE ${PROJECT_BINARY_DIR}/hetsynthTargets.cmake)

# `cpack -G DEB`. What the program is linked with is found by dpkg-shlibdeps; models are compiled with Clang's own headers
# and those of a C++ library.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME hetsynth)
set(CPACK_PACKAGE_VENDOR "hetsynth")
set(CPACK_PACKAGE_CONTACT "hetsynth maintainers <maintainers@hetsynth.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains a model written for one device across unequal devices")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libclang-common-${LLVM_VERSION_MAJOR}-dev, libstdc++-12-dev, libc6-dev")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openmpi-bin")
include(CPack)
