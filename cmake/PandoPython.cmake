# The extension module pando._core.

file(GLOB binding_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/bindings/*.cpp)
if(NOT binding_sources)
  message(WARNING "python/bindings holds no source: pando._core is not built")
  return()
endif()

execute_process(
  COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_ROOT
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(nanobind CONFIG REQUIRED)

nanobind_add_module(_core NB_STATIC NB_DOMAIN pando NOMINSIZE ${binding_sources})
target_sources(_core PRIVATE $<TARGET_OBJECTS:pando_command_line>)
target_link_libraries(_core PRIVATE pando)
pando_unity(nanobind-static 16)
pando_precompile(_core <nanobind/nanobind.h> <nanobind/ndarray.h> <nanobind/stl/function.h>
                 <nanobind/stl/map.h> <nanobind/stl/optional.h> <nanobind/stl/string.h>
                 <nanobind/stl/vector.h>)
pando_unity(_core 4)  # groups of eight would be the last to end, on one processor
target_compile_definitions(_core PRIVATE PANDO_VERSION="${PROJECT_VERSION}")
# Headers of others are not held to this project's warnings.
target_include_directories(_core SYSTEM PRIVATE ${NB_DIR}/include ${Python_INCLUDE_DIRS})
set_target_properties(
  _core
  PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python
             # pip puts libdnnl.so.3 in <prefix>/lib, and the module in site-packages/pando below
             # <prefix>/lib/pythonX.Y, or lib64; both in one folder with `pip install --target`.
             INSTALL_RPATH "$ORIGIN/../../..:$ORIGIN/../../../../lib:$ORIGIN/../lib")
# Where pando.get_include() says that it is.
install(FILES ${PROJECT_SOURCE_DIR}/pando/custom/pando_op.h DESTINATION pando/include
        COMPONENT python)
install(TARGETS _core LIBRARY DESTINATION pando COMPONENT python)
