# Finds HiGHS, which solves mixed-integer programs, by its C interface: installed, or in the wheel `highsbox` of
# PyPI (setup/requirements.txt). Defines HiGHS::highs. Hint: HIGHS_ROOT (variable or environment), a folder with
# include/highs/interfaces/highs_c_api.h and lib/libhighs.so.
file(GLOB um_highs_wheels
  ${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages/highsbox/highs_dist
  ${PROJECT_BINARY_DIR}/venv/lib/python3*/site-packages/highsbox/highs_dist)
set(um_highs_roots ${HIGHS_ROOT} $ENV{HIGHS_ROOT} ${um_highs_wheels})
find_path(HiGHS_INCLUDE_DIR interfaces/highs_c_api.h HINTS ${um_highs_roots} PATH_SUFFIXES include/highs highs)
find_library(HiGHS_LIBRARY highs HINTS ${um_highs_roots} PATH_SUFFIXES lib lib64)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(HiGHS REQUIRED_VARS HiGHS_LIBRARY HiGHS_INCLUDE_DIR)
if(HiGHS_FOUND AND NOT TARGET HiGHS::highs)
  add_library(HiGHS::highs UNKNOWN IMPORTED)
  set_target_properties(HiGHS::highs PROPERTIES
    IMPORTED_LOCATION ${HiGHS_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${HiGHS_INCLUDE_DIR})
endif()
mark_as_advanced(HiGHS_INCLUDE_DIR HiGHS_LIBRARY)
