# Language level, warnings, sanitizers and the compiler launcher.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# Parsing the standard library is a quarter of a source's compile time. Off: every source is compiled
# with its own includes only, which shows one that is missing.
option(PANDO_PRECOMPILE "Precompile the standard headers" ON)

# Off: every source is compiled by itself, which is quicker after an edit of one of them.
option(PANDO_UNITY "Compile sources in groups" ON)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # What ccache needs to know sources with a precompiled header again.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
                                  ${CCACHE_PROGRAM})
endif()

set(PANDO_SANITIZE "" CACHE STRING "Sanitizers for -fsanitize=, for example address,undefined")

add_library(pando_flags INTERFACE)
# What the executable cache knows a build by.
target_link_options(pando_flags INTERFACE -Wl,--build-id=sha1)
target_compile_options(pando_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Werror
                                           -Wno-missing-field-initializers)
# Contraction of a * b + c would make results depend on how ops were grouped into kernels.
target_compile_options(pando_flags INTERFACE -ffp-contract=off)
# False alarms in std::string of GCC 12 (its bug 105329).
target_compile_options(pando_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# GCC's garbage collection takes 7 to 9 % of a source's compile time, and saves 0.1 GB.
target_compile_options(pando_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1000000>)
# SIMD targets that add code size but no speed on the machines we care for.
set(pando_disabled_simd "HWY_SSSE3|HWY_AVX3_DL")
if(PANDO_SANITIZE)
  # Its instantiations take minutes to compile with sanitizers.
  string(APPEND pando_disabled_simd "|HWY_AVX3")
endif()
target_compile_definitions(pando_flags INTERFACE "HWY_DISABLED_TARGETS=(${pando_disabled_simd})")
define_property(TARGET PROPERTY PANDO_UNCHECKED
                BRIEF_DOCS "Checks that sanitizers leave out, as for -fno-sanitize=")
option(PANDO_ALL_SIMD_TARGETS
       "Off: only the SIMD target of this machine, for builds that stay here and compile sooner" ON)
option(PANDO_THREAD_TESTS_ONLY "For the thread sanitizer: only tests that start threads" OFF)
if(PANDO_SANITIZE)
  # Instrumentation confuses the flow analysis behind -Wmaybe-uninitialized in GCC 12.
  target_compile_options(
    pando_flags INTERFACE -fsanitize=${PANDO_SANITIZE} -fno-sanitize-recover=all
                          -fno-omit-frame-pointer -Wno-maybe-uninitialized)
  # After the sanitizers, of which it takes checks away.
  set(unchecked $<TARGET_PROPERTY:PANDO_UNCHECKED>)
  target_compile_options(pando_flags INTERFACE $<$<BOOL:${unchecked}>:-fno-sanitize=${unchecked}>)
  target_link_options(pando_flags INTERFACE -fsanitize=${PANDO_SANITIZE})
endif()

set(pando_precompiled_headers
    <algorithm>
    <array>
    <cmath>
    <cstdint>
    <cstring>
    <functional>
    <limits>
    <map>
    <memory>
    <numeric>
    <optional>
    <set>
    <span>
    <sstream>
    <stdexcept>
    <string>
    <string_view>
    <unordered_map>
    <unordered_set>
    <utility>
    <variant>
    <vector>)

# pando_precompile(TARGET [HEADER...]): the standard headers and these, parsed once for the target.
function(pando_precompile target)
  if(PANDO_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${pando_precompiled_headers} ${ARGN})
    # GCC 12 forgets that the precompiled code is the system's and reports its own false alarms.
    target_compile_options(${target} PRIVATE
                           $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess;-Wno-array-bounds;
                           -Wno-stringop-overflow;-Wno-stringop-overread>)
  endif()
endfunction()

# pando_unity(TARGET [SIZE]): its sources are compiled in groups of eight (or SIZE) neighbours in one
# folder, so that headers are parsed and templates made once for a group.
function(pando_unity target)
  if(NOT PANDO_UNITY)
    return()
  endif()
  set(size 8)
  if(ARGC GREATER 1)
    set(size ${ARGV1})
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    list(APPEND grouped_${folder} ${source})
    list(LENGTH grouped_${folder} count)
    math(EXPR group "(${count} - 1) / ${size}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # GCC takes the sources of a group for headers.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()
