# um_library(name SOURCES ... DEPENDS ...): static library um_<name>, alias um::<name>.
# Dependencies are PUBLIC and name the floors below only, so a missing edge fails to link.
function(um_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(um_${name} STATIC ${ARG_SOURCES})
  add_library(um::${name} ALIAS um_${name})
  set_target_properties(um_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(um_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/umbench>)
  target_compile_features(um_${name} PUBLIC cxx_std_20)
  target_link_libraries(um_${name} PUBLIC ${ARG_DEPENDS} PRIVATE $<BUILD_INTERFACE:um_warnings>)
endfunction()

# um_compile_quickly(target...): for targets in which no command spends its time. Full optimisation takes a third of
# their compilation and makes nothing faster.
function(um_compile_quickly)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
  endforeach()
endfunction()

set(UM_TEST_TIMEOUT 7200 CACHE STRING "Seconds after which a test hangs: no test is told to be quick")

# um_test(name SOURCES ... DEPENDS ... [LOCK resource]): a GoogleTest executable, its cases found by
# CTest. Cases that lock the same resource never run at the same time.
function(um_test name)
  cmake_parse_arguments(ARG "" "LOCK" "SOURCES;DEPENDS" ${ARGN})
  if(NOT UM_TESTS)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gtest GTest::gtest_main um_warnings)
  set(lock "")
  if(ARG_LOCK)
    set(lock RESOURCE_LOCK ${ARG_LOCK})
  endif()
  gtest_discover_tests(${name} NO_PRETTY_VALUES DISCOVERY_TIMEOUT 3600 PROPERTIES TIMEOUT ${UM_TEST_TIMEOUT} ${lock})
endfunction()
