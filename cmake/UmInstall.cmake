# What `cmake --install` puts where. Component library: what find_package(umbench) gives (docs/contributing/building_on.md). Component
# program: umbench, and in share/umbench its Python package, schemas, machine files and sweeps, where it looks for them.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/umbench)

set(floors core networks simulator schedule hints planners)
list(TRANSFORM floors PREPEND um_ OUTPUT_VARIABLE libraries)
install(TARGETS ${libraries} EXPORT umbench ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
foreach(floor ${floors})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${floor} DESTINATION include/umbench COMPONENT library FILES_MATCHING PATTERN "*.hpp")
endforeach()
install(EXPORT umbench NAMESPACE um:: DESTINATION ${package} FILE umbenchTargets.cmake COMPONENT library)
set(UM_NEEDS_HIGHS 0)
if(UM_HIGHS AND HiGHS_LIBRARY AND HiGHS_INCLUDE_DIR)
  set(UM_NEEDS_HIGHS 1)
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/umbenchConfig.cmake.in ${PROJECT_BINARY_DIR}/umbenchConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/umbenchConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/umbenchConfig.cmake ${PROJECT_BINARY_DIR}/umbenchConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindHiGHS.cmake DESTINATION ${package} COMPONENT library)

# Shared libraries that came in wheels lie in the build folder's environment, which CMake takes for what is built.
foreach(shared HiGHS_LIBRARY cuDNN_LIBRARY)
  if(${shared})
    get_filename_component(folder ${${shared}} REALPATH)
    get_filename_component(folder ${folder} DIRECTORY)
    set_property(TARGET umbench APPEND PROPERTY INSTALL_RPATH ${folder})
  endif()
endforeach()
install(TARGETS umbench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
if(TARGET umbench_trace)
  install(TARGETS umbench_trace umbench_pool LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT program)
endif()
foreach(folder plots python)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION share/umbench COMPONENT program
    FILES_MATCHING PATTERN "*.py" PATTERN "*.html" PATTERN "__pycache__" EXCLUDE PATTERN "build" EXCLUDE PATTERN "*.egg-info" EXCLUDE
    PATTERN "setup.py" EXCLUDE)
endforeach()
file(GLOB schemas ${PROJECT_SOURCE_DIR}/results/*.schema.json)
install(FILES ${schemas} DESTINATION share/umbench/results COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/results/machines ${PROJECT_SOURCE_DIR}/results/papers
  DESTINATION share/umbench/results COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/benchmarks/sweeps DESTINATION share/umbench/benchmarks COMPONENT program)
