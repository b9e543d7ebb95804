# Compiler, warnings, sanitizers.

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

option(MUSTER_TESTS "Build the unit tests" ON)
option(MUSTER_FUZZERS "Build libFuzzer targets (needs clang)" OFF)
set(MUSTER_SANITIZE "" CACHE STRING "Value for -fsanitize=, e.g. address,undefined")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(MUSTER_CCACHE ccache)
if(MUSTER_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MUSTER_CCACHE})
endif()

find_program(MUSTER_MOLD mold)
if(MUSTER_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Applied to Muster's own code only, never to generated messages.
# Designated initializers leave out what has a default: that is what they are for.
set(MUSTER_WARNINGS -Wall -Wextra -Werror -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  list(APPEND MUSTER_WARNINGS -Wthread-safety)
endif()

if(MUSTER_SANITIZE)
  add_compile_options(-fsanitize=${MUSTER_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${MUSTER_SANITIZE})
  if(MUSTER_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-Wno-tsan)  # Asio's fences, which the sanitizer does not see
  endif()
endif()

if(MUSTER_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)  # so that libFuzzer sees which ways inputs take
endif()
