# Every library the project uses, found once, each as one target. CUDA is never linked: its libraries are opened at run time.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(ZLIB REQUIRED)

pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(CLP REQUIRED IMPORTED_TARGET clp)
pkg_check_modules(Z3 REQUIRED IMPORTED_TARGET z3)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(SENTENCEPIECE REQUIRED IMPORTED_TARGET sentencepiece)

# The planner makes and frees many small tables: a fifth of its time goes with the C library's allocator. Sanitizers bring one of their own.
add_library(hetsynth_allocator INTERFACE)
if(NOT HETSYNTH_SANITIZE)
  pkg_check_modules(JEMALLOC REQUIRED IMPORTED_TARGET jemalloc)
  target_link_libraries(hetsynth_allocator INTERFACE PkgConfig::JEMALLOC)
endif()

# Debian's dnnl-config.cmake insists on OpenCL, which the CPU engine does not need: the library is found without it.
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
add_library(hetsynth_dnnl INTERFACE)
target_include_directories(hetsynth_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(hetsynth_dnnl INTERFACE ${DNNL_LIBRARY})

find_package(LLVM 19.1 REQUIRED CONFIG PATHS /usr/lib/llvm-19 NO_DEFAULT_PATH)
find_library(CLANG_CPP_LIBRARY clang-cpp PATHS ${LLVM_LIBRARY_DIRS} NO_DEFAULT_PATH REQUIRED)
# LLVM and Clang behind one target: shared libraries, the C++ interface compiled with our own flags.
add_library(hetsynth_llvm INTERFACE)
target_include_directories(hetsynth_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(LLVM_DEFINITIONS_LIST NATIVE_COMMAND ${LLVM_DEFINITIONS})
target_compile_definitions(hetsynth_llvm INTERFACE ${LLVM_DEFINITIONS_LIST})
target_link_libraries(hetsynth_llvm INTERFACE ${CLANG_CPP_LIBRARY} LLVM)

# Clang's own headers, which model files need when they are compiled.
find_path(CLANG_RESOURCE_DIR include/stddef.h PATHS ${LLVM_LIBRARY_DIRS}/clang/${LLVM_VERSION_MAJOR} ${LLVM_LIBRARY_DIRS}/clang/${LLVM_PACKAGE_VERSION}
  NO_DEFAULT_PATH)
if(NOT CLANG_RESOURCE_DIR)
  message(FATAL_ERROR "Clang's own headers (include/stddef.h) are not under ${LLVM_LIBRARY_DIRS}/clang: install libclang-common-${LLVM_VERSION_MAJOR}-dev")
endif()
