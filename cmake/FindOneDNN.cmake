# Finds oneDNN and defines OneDNN::OneDNN.
#
# Looks in ONEDNN_ROOT, then where pip put the packages onednn-cpu-gomp and onednn-devel-cpu-gomp
# for Python_EXECUTABLE (an environment's lib/ and include/), then in the system.
# Sets OneDNN_VERSION, OneDNN_LIBRARY and OneDNN_INCLUDE_DIR.

set(onednn_hints ${ONEDNN_ROOT})
if(Python_EXECUTABLE)
  execute_process(
    COMMAND ${Python_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/onednn_prefix.py
    OUTPUT_VARIABLE onednn_python_prefix
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  list(APPEND onednn_hints ${onednn_python_prefix})
endif()

find_path(OneDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp HINTS ${onednn_hints} PATH_SUFFIXES include)
find_library(OneDNN_LIBRARY NAMES libdnnl.so.3 dnnl HINTS ${onednn_hints} PATH_SUFFIXES lib)

if(OneDNN_INCLUDE_DIR)
  file(STRINGS ${OneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h onednn_version_lines
       REGEX "#define DNNL_VERSION_(MAJOR|MINOR|PATCH)")
  string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+).*" "\\1.\\2.\\3"
                       OneDNN_VERSION "${onednn_version_lines}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  OneDNN
  REQUIRED_VARS OneDNN_LIBRARY OneDNN_INCLUDE_DIR
  VERSION_VAR OneDNN_VERSION
  REASON_FAILURE_MESSAGE
    "run ./dev setup, or pip install onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0")

if(OneDNN_FOUND AND NOT TARGET OneDNN::OneDNN)
  add_library(OneDNN::OneDNN SHARED IMPORTED)
  set_target_properties(
    OneDNN::OneDNN PROPERTIES IMPORTED_LOCATION ${OneDNN_LIBRARY}
                              INTERFACE_INCLUDE_DIRECTORIES ${OneDNN_INCLUDE_DIR})
endif()
mark_as_advanced(OneDNN_INCLUDE_DIR OneDNN_LIBRARY)
