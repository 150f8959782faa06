# Finds what the CUDA backend needs: compiler, runtime, cuBLASLt, cuDNN, cudnn-frontend.
# Hints: CUDACXX or CMAKE_CUDA_COMPILER, CUDA_HOME, CUDNN_ROOT, CUDNN_FRONTEND_INCLUDE,
# CMAKE_CUDA_ARCHITECTURES (default 80;90: a GPU need not be present to build).

if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  file(GLOB um_toolkits /usr/local/cuda-*)
  list(SORT um_toolkits COMPARE NATURAL ORDER DESCENDING)
  find_program(UM_NVCC nvcc
    HINTS ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin
    PATHS /usr/local/cuda ${um_toolkits})
  if(NOT UM_NVCC)
    message(FATAL_ERROR "UM_CUDA is ON but there is no nvcc: set CUDACXX or CUDA_HOME, or configure with -DUM_CUDA=OFF")
  endif()
  set(CMAKE_CUDA_COMPILER ${UM_NVCC})
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90)
endif()
# One runtime library everywhere; without this CMake adds the static one beside any other.
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)

# CMake 3.25 does not know C++20 for nvcc 13 and would drop the flag.
set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
unset(CMAKE_CUDA_STANDARD)
add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)

find_package(CUDAToolkit 12.4 REQUIRED)
find_package(cuDNN 9 REQUIRED)
find_package(Threads REQUIRED)

# Header-only cudnn-frontend: from a hint, the system, or the wheel nvidia-cudnn-frontend.
file(GLOB um_venv_includes
  ${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages/include
  ${PROJECT_BINARY_DIR}/venv/lib/python3*/site-packages/include)
find_path(CUDNN_FRONTEND_INCLUDE cudnn_frontend.h
  HINTS ${um_venv_includes} PATHS /usr/include /usr/local/include
  DOC "Folder with cudnn_frontend.h")
if(NOT CUDNN_FRONTEND_INCLUDE)
  message(FATAL_ERROR "No cudnn_frontend.h: pip install nvidia-cudnn-frontend into build/venv, or set CUDNN_FRONTEND_INCLUDE to its include folder")
endif()
add_library(um_cudnn_frontend INTERFACE)
target_include_directories(um_cudnn_frontend SYSTEM INTERFACE ${CUDNN_FRONTEND_INCLUDE} ${cuDNN_INCLUDE_DIR})
# Its bundled JSON library would meet ours in one program.
target_compile_definitions(um_cudnn_frontend INTERFACE CUDNN_FRONTEND_SKIP_JSON_LIB)
