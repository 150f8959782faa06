# Finds cuDNN's headers and its shim library, which loads the other parts by itself.
# Defines cuDNN::cudnn, cuDNN_VERSION. Hints: CUDNN_ROOT (variable or environment): a folder with
# include/ and lib/, as the toolkit's, a tar archive's or the Python wheel's nvidia/cudnn.
file(GLOB um_cudnn_wheels
  ${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages/nvidia/cudnn
  ${PROJECT_BINARY_DIR}/venv/lib/python3*/site-packages/nvidia/cudnn)
set(um_cudnn_roots ${CUDNN_ROOT} $ENV{CUDNN_ROOT} ${CUDAToolkit_ROOT} ${CUDAToolkit_BIN_DIR}/.. ${um_cudnn_wheels})

find_path(cuDNN_INCLUDE_DIR cudnn_version.h
  HINTS ${um_cudnn_roots} PATH_SUFFIXES include
  PATHS /usr/local/cuda /usr/local /usr)
find_library(cuDNN_LIBRARY NAMES cudnn libcudnn.so.9
  HINTS ${um_cudnn_roots} PATH_SUFFIXES lib lib64 lib/x86_64-linux-gnu lib/aarch64-linux-gnu
  PATHS /usr/local/cuda /usr/local /usr)

if(cuDNN_INCLUDE_DIR)
  set(um_version_file ${cuDNN_INCLUDE_DIR}/cudnn_version.h)
  if(EXISTS ${cuDNN_INCLUDE_DIR}/cudnn_version_v9.h)
    set(um_version_file ${cuDNN_INCLUDE_DIR}/cudnn_version_v9.h)
  endif()
  file(STRINGS ${um_version_file} um_version_lines REGEX "#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) [0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" um_version_parts "${um_version_lines}")
  list(JOIN um_version_parts "." cuDNN_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(cuDNN REQUIRED_VARS cuDNN_LIBRARY cuDNN_INCLUDE_DIR VERSION_VAR cuDNN_VERSION
  REASON_FAILURE_MESSAGE "set CUDNN_ROOT to a folder with include/cudnn.h and lib/libcudnn.so")
if(cuDNN_FOUND AND NOT TARGET cuDNN::cudnn)
  add_library(cuDNN::cudnn UNKNOWN IMPORTED)
  set_target_properties(cuDNN::cudnn PROPERTIES
    IMPORTED_LOCATION ${cuDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${cuDNN_INCLUDE_DIR})
endif()
mark_as_advanced(cuDNN_INCLUDE_DIR cuDNN_LIBRARY)
