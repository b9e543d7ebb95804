# muster_module(NAME SOURCES a.cc … [TESTS a_test.cc …] DEPENDS base … [LIBRARIES fmt::fmt …]
#               [TEST_DEPENDS …] [TEST_LIBRARIES …])
#
# Declares the static library muster_NAME (no sources: an interface library) and the test program
# NAME_test. DEPENDS names other Muster modules: it is the dependency graph, and
# tools/check_includes.py holds every #include against it. A *_test.cc in the folder that no
# module lists fails configuration, so that no test is forgotten.
function(muster_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;TESTS;DEPENDS;LIBRARIES;TEST_DEPENDS;TEST_LIBRARIES" ${ARGN})
  set(target muster_${name})
  list(TRANSFORM arg_DEPENDS PREPEND muster_ OUTPUT_VARIABLE depends)
  list(TRANSFORM arg_TEST_DEPENDS PREPEND muster_ OUTPUT_VARIABLE test_depends)
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/src)
    target_compile_options(${target} PRIVATE ${MUSTER_WARNINGS})
    target_link_libraries(${target} PUBLIC ${depends} ${arg_LIBRARIES})
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(${target} INTERFACE ${depends} ${arg_LIBRARIES})
  endif()

  file(GLOB found RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *_test.cc)
  foreach(test ${found})
    if(NOT test IN_LIST arg_TESTS)
      get_property(listed GLOBAL PROPERTY muster_tests_${CMAKE_CURRENT_SOURCE_DIR})
      if(NOT test IN_LIST listed)
        message(FATAL_ERROR "${CMAKE_CURRENT_SOURCE_DIR}/${test} is in no muster_module(TESTS …)")
      endif()
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY muster_tests_${CMAKE_CURRENT_SOURCE_DIR} ${arg_TESTS})

  if(MUSTER_TESTS AND arg_TESTS)
    add_executable(${name}_test ${arg_TESTS})
    # Unoptimized in any build: half of the compile time, and the code under test is not in there.
    target_compile_options(${name}_test PRIVATE ${MUSTER_WARNINGS} $<$<CONFIG:Release>:-O0>)
    target_compile_definitions(${name}_test PRIVATE MUSTER_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    target_link_libraries(${name}_test PRIVATE ${target} ${test_depends} ${arg_TEST_LIBRARIES}
                          GTest::gmock_main rapidcheck)
    add_test(NAME ${name} COMMAND ${name}_test)
    set_tests_properties(${name} PROPERTIES TIMEOUT 300)
  endif()
endfunction()

# muster_fuzzer(NAME SOURCE MODULE): a libFuzzer program, made with MUSTER_FUZZERS alone; `make fuzz`
# builds and runs them all. Its kept inputs lie in fuzz/corpus/NAME.
function(muster_fuzzer name source module)
  if(NOT MUSTER_FUZZERS)
    return()
  endif()
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)
  endif()
  add_executable(${name} ${source})
  target_compile_options(${name} PRIVATE ${MUSTER_WARNINGS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE muster_${module})
  add_dependencies(fuzzers ${name})
endfunction()
