# Everything that Pando links. docs/dependencies.md says why each of them is here.

# The project's own virtual environment (made by `./dev setup`) is the default Python: it holds the
# oneDNN library and nanobind.
if(NOT Python_EXECUTABLE AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  set(Python_EXECUTABLE ${PROJECT_SOURCE_DIR}/.venv/bin/python)
endif()
if(PANDO_PYTHON)
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
else()
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
endif()

find_package(OneDNN 3 REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
# Used as headers only. What they call of Highway's library is in backends/cpu/simd_targets.cpp.
pkg_check_modules(highway REQUIRED IMPORTED_TARGET libhwy>=1.0.3)
set_property(TARGET PkgConfig::highway PROPERTY INTERFACE_LINK_LIBRARIES "")
pkg_check_modules(xxhash REQUIRED libxxhash>=0.8.0)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  find_path(xbyak_INCLUDE_DIR xbyak/xbyak.h REQUIRED)  # headers only
endif()

# Linked statically, so that a wheel needs no other library. Without it, or on a kernel without
# io_uring, files are read and written by threads.
option(PANDO_IO_URING "Use io_uring for remote buffers in files, where liburing is found" ON)
set(liburing_found FALSE)
if(PANDO_IO_URING)
  find_library(LIBURING_LIBRARY liburing.a)
  find_path(LIBURING_INCLUDE_DIR liburing.h)
  mark_as_advanced(LIBURING_LIBRARY LIBURING_INCLUDE_DIR)
  if(LIBURING_LIBRARY AND LIBURING_INCLUDE_DIR)
    set(liburing_found TRUE)
    message(STATUS "io_uring: with ${LIBURING_LIBRARY}")
  else()
    message(STATUS "io_uring: not used, for liburing.a is not found (Debian: liburing-dev)")
  endif()
else()
  message(STATUS "io_uring: not used (PANDO_IO_URING is off)")
endif()
