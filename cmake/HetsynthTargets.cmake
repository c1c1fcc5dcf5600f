# Compile settings every target of the project shares, and the helper that makes a stage's library.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()

add_library(hetsynth_options INTERFACE)
target_compile_options(hetsynth_options INTERFACE -Wall -Wextra $<$<BOOL:${HETSYNTH_WERROR}>:-Werror>)
# The stable_sort of libstdc++ 12 calls what libstdc++ 12 itself declares deprecated: Clang tells every caller.
target_compile_options(hetsynth_options INTERFACE $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
if(HETSYNTH_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()
if(HETSYNTH_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Most of the time of compiling goes into headers of other libraries, which files of one target share. With HETSYNTH_UNITY twelve files
# are compiled as one; no two files of a library may then give different things of their own one name.
function(hetsynth_compile_together target)
  if(HETSYNTH_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endif()
endfunction()

# hetsynth_compile_alone(GLOBS...): files that keep to themselves under HETSYNTH_UNITY.
function(hetsynth_compile_alone)
  foreach(glob IN LISTS ARGN)
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${glob})
    set_source_files_properties(${found} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endfunction()

# hetsynth_library(NAME DIRS... [LINK targets...]): a static library of every .cpp directly in DIRS.
function(hetsynth_library name)
  cmake_parse_arguments(ARG "" "" "DIRS;LINK;PRIVATE_LINK" ${ARGN})
  set(sources)
  foreach(dir IN LISTS ARG_DIRS)
    file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${dir}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  if(NOT sources)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${name}_empty.cpp "")
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/${name}_empty.cpp)
  endif()
  add_library(${name} STATIC ${sources})
  hetsynth_compile_together(${name})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} PRIVATE hetsynth_options ${ARG_PRIVATE_LINK})
endfunction()

# hetsynth_hosts_models(TARGET): the executable, or shared library, holds the whole DSL and exports its symbols, because model files and generated programs
# link against the running process.
function(hetsynth_hosts_models target)
  set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON
    LINK_LIBRARY_OVERRIDE_hetsynth_dsl WHOLE_ARCHIVE LINK_LIBRARY_OVERRIDE_hetsynth_base WHOLE_ARCHIVE)
endfunction()
