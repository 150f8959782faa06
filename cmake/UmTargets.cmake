# um_join(variable sources...): with UM_JOIN, puts up to 8 sources of C++ or CUDA at a time into one that includes them, so that
# their headers are read once; sets the variable to what is to be compiled. tests/structure/structure.py holds that no two
# of a target name something of their own alike. CMake's UNITY_BUILD writes absolute paths, which no compiler cache finds
# again in another clone. Sources with options of their own stay alone.
function(um_join variable)
  set(alone "")
  set(together_cpp "")
  set(together_cu "")
  foreach(source ${ARGN})
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(UM_JOIN AND NOT definitions AND NOT options AND source MATCHES "^[a-z][a-z0-9_/]*\\.(cpp|cu)$")
      list(APPEND together_${CMAKE_MATCH_1} ${source})
    else()
      list(APPEND alone ${source})
    endif()
  endforeach()
  um_join_all(cpp ${together_cpp})
  um_join_all(cu ${together_cu})
  set(${variable} ${alone} ${joined_cpp} ${joined_cu} PARENT_SCOPE)
endfunction()

# Sets joined_<language> to sources that include all of those given.
function(um_join_all language)
  set(together ${ARGN})
  set(made "")
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  list(LENGTH together count)
  math(EXPR groups "(${count} + 7) / 8")
  while(together)
    list(LENGTH together count)
    math(EXPR size "(${count} + ${groups} - 1) / ${groups}")
    math(EXPR groups "${groups} - 1")
    list(SUBLIST together 0 ${size} some)
    list(REMOVE_ITEM together ${some})
    if(size EQUAL 1)
      list(APPEND made ${some})
      continue()
    endif()
    list(GET some 0 first)
    set(joined ${CMAKE_CURRENT_BINARY_DIR}/joined/${first})
    list(TRANSFORM some REPLACE "(.+)" "#include \"${folder}/\\1\"\n")
    list(JOIN some "" text)
    file(CONFIGURE OUTPUT ${joined} CONTENT "${text}")
    # A local variable may be named as something of another file. That an insertion writes beyond its end is a false
    # alarm of GCC 12 about its own std::vector.
    set_source_files_properties(${joined} PROPERTIES COMPILE_OPTIONS
      "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-shadow;-Wshadow=local;-Wno-subobject-linkage;-Wno-stringop-overflow>")
    list(APPEND made ${joined})
  endwhile()
  set(joined_${language} ${made} PARENT_SCOPE)
endfunction()

# um_library(name SOURCES ... [APART ...] DEPENDS ...): static library um_<name>, alias um::<name>. The sources after APART
# are never joined: a test brings its own of some of them.
# Dependencies are PUBLIC and name the floors below only, so a missing edge fails to link.
function(um_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;APART;DEPENDS" ${ARGN})
  um_join(sources ${ARG_SOURCES})
  add_library(um_${name} STATIC ${sources} ${ARG_APART})
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

# um_precompile(target how...): target_precompile_headers(); a compiler cache takes what it compiles if it is told to.
function(um_precompile target)
  target_precompile_headers(${target} ${ARGN})
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
  if(UM_CCACHE)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${UM_CCACHE}")
  endif()
endfunction()

set(UM_TEST_TIMEOUT 7200 CACHE STRING "Seconds after which a test hangs: no test is told to be quick")
# Debian's interpreter by path: it sees the packages of apt, which another python3 may not.
set(UM_PYTHON /usr/bin/python3 CACHE FILEPATH "Python with matplotlib, scipy, jsonschema and pytest")
set(UM_TORCH_PYTHON ${UM_PYTHON} CACHE FILEPATH "The same with torch, torchvision and transformers (./check --torch)")

# Tests with the label `study` take long and ask more than a change needs: ./check leaves them out, ./check --all runs
# them (docs/running.md).
set(UM_STUDY study)

function(um_test_properties name)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${UM_TEST_TIMEOUT} SKIP_RETURN_CODE 77 ${ARGN})
endfunction()

# um_test(name SOURCES ... DEPENDS ... [LOCK resource] [SHARDS n] [STUDY filter]): a GoogleTest executable and its entry
# in CTest; with SHARDS, n entries that share its cases. Entries that lock the same resource never run at the same time.
# Cases that match the filter of GoogleTest in STUDY are a study.
function(um_test name)
  cmake_parse_arguments(ARG "" "LOCK;SHARDS;STUDY" "SOURCES;DEPENDS" ${ARGN})
  if(NOT UM_TESTS)
    return()
  endif()
  um_join(sources ${ARG_SOURCES})
  add_executable(${name} ${sources} $<TARGET_OBJECTS:um_test_main>)
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gtest um_warnings)
  um_compile_quickly(${name})
  um_precompile(${name} REUSE_FROM um_test_main)
  set(more "")
  if(ARG_LOCK)
    list(APPEND more RESOURCE_LOCK ${ARG_LOCK})
  endif()
  set(filter "")
  if(ARG_STUDY)
    set(filter --gtest_filter=-${ARG_STUDY})
    add_test(NAME ${name}.study COMMAND ${name} --gtest_brief=1 --gtest_filter=${ARG_STUDY})
    um_test_properties(${name}.study LABELS ${UM_STUDY} ${more})
  endif()
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  foreach(shard RANGE 1 ${ARG_SHARDS})
    set(entry ${name})
    if(ARG_SHARDS GREATER 1)
      set(entry ${name}.${shard})
    endif()
    math(EXPR index "${shard} - 1")
    add_test(NAME ${entry} COMMAND ${name} --gtest_brief=1 ${filter})
    um_test_properties(${entry} ${more})
    set_property(TEST ${entry} PROPERTY ENVIRONMENT GTEST_TOTAL_SHARDS=${ARG_SHARDS} GTEST_SHARD_INDEX=${index})
  endforeach()
endfunction()

# um_python_test(name [STUDY] [TORCH] [ENVIRONMENT ...] [PROPERTIES ...] COMMAND ...): runs Python in the folder of the
# list; $UMBENCH names the program. With STUDY it is a study, with TORCH Python has PyTorch if any does.
function(um_python_test name)
  cmake_parse_arguments(ARG "STUDY;TORCH" "" "COMMAND;ENVIRONMENT;PROPERTIES" ${ARGN})
  set(python ${UM_PYTHON})
  if(ARG_TORCH)
    set(python ${UM_TORCH_PYTHON})
  endif()
  add_test(NAME ${name} COMMAND ${python} ${ARG_COMMAND} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  um_test_properties(${name} ${ARG_PROPERTIES})
  set_property(TEST ${name} PROPERTY ENVIRONMENT
    PYTHONDONTWRITEBYTECODE=1 "UMBENCH=$<$<TARGET_EXISTS:umbench>:$<TARGET_FILE:umbench>>" ${ARG_ENVIRONMENT})
  if(ARG_STUDY)
    set_property(TEST ${name} PROPERTY LABELS ${UM_STUDY})
  endif()
endfunction()

# um_pytest(name [STUDY] [TORCH] [ENVIRONMENT ...] [paths ...]): the tests of pytest in those files of the list's folder, or in
# all of it. With STUDY, those marked `study` are an entry of their own, which is a study.
function(um_pytest name)
  cmake_parse_arguments(ARG "STUDY;TORCH" "" "ENVIRONMENT" ${ARGN})
  list(TRANSFORM ARG_UNPARSED_ARGUMENTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE paths)
  if(NOT paths)
    set(paths ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  set(run -m pytest -q -p no:cacheprovider ${paths})
  set(how "")
  if(ARG_TORCH)
    set(how TORCH)
  endif()
  list(APPEND how ENVIRONMENT ${ARG_ENVIRONMENT} PROPERTIES WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  um_python_test(${name} COMMAND ${run} -m "not study" ${how})
  if(ARG_STUDY)
    um_python_test(${name}.study STUDY COMMAND ${run} -m study ${how})
  endif()
endfunction()
