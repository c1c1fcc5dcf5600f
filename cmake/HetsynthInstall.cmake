# `cmake --install` and packages: the program, the headers that models include, examples and documents. The program finds
# its headers beside itself (dsl/frontend/model.h), so that an installed tree can be moved.

install(TARGETS hetsynth RUNTIME DESTINATION bin)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/dsl/include/hetsynth DESTINATION lib/hetsynth/include FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/dsl/ops DESTINATION lib/hetsynth/include/dsl FILES_MATCHING PATTERN "*.h" PATTERN "support" EXCLUDE)
install(FILES ${PROJECT_BINARY_DIR}/generated/hetsynth/operators.h DESTINATION lib/hetsynth/include/hetsynth)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION share/hetsynth)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION share/doc/hetsynth FILES_MATCHING PATTERN "*.md")
install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION share/doc/hetsynth)

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
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libclang-common-${LLVM_VERSION_MAJOR}-dev, libstdc++-12-dev, libc6-dev")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openmpi-bin")
include(CPack)
