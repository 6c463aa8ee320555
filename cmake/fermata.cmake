# The few words in which every CMakeLists.txt of the tree is written.

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()

add_compile_definitions(_GNU_SOURCE FERMATA_VERSION="${PROJECT_VERSION}")

# Warnings and sanitizers for our own code; generated code (protos) links none of this.
add_library(fermata_flags INTERFACE)
target_compile_options(fermata_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wundef -Wvla
  $<$<BOOL:${FERMATA_WERROR}>:-Werror>)
target_include_directories(fermata_flags INTERFACE ${PROJECT_SOURCE_DIR}/libs)
if(FERMATA_SANITIZE)
  add_compile_options(-fsanitize=${FERMATA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${FERMATA_SANITIZE})
endif()

# fermata_library(NAME SOURCES file… [DEPS target…] [PRIVATE_DEPS target…]): static library libs/NAME, headers as "NAME/x.h".
function(fermata_library name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_link_libraries(${name} PUBLIC ${A_DEPS} PRIVATE fermata_flags ${A_PRIVATE_DEPS})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/libs)
endfunction()

# fermata_computes(NAME): what long tests spend their time in. A little optimisation there takes less time than the sanitizers' tests
# would without. GCC then warns of variables that only the sanitizers' calls keep it from following; the release build warns of the others.
function(fermata_computes name)
  if(FERMATA_SANITIZE)
    target_compile_options(${name} PRIVATE -O1 -Wno-maybe-uninitialized)
  endif()
endfunction()

# fermata_helper(NAME SOURCES file… DEPS target…): build/PRESET/bin/NAME, which a test or a benchmark runs.
function(fermata_helper name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE fermata_flags ${A_DEPS})
endfunction()

# fermata_program(NAME SOURCES file… DEPS target…): the same, which users run. Target `programs` builds them all, and nothing else.
add_custom_target(programs)
function(fermata_program name)
  fermata_helper(${name} ${ARGN})
  add_dependencies(programs ${name})
endfunction()

# A test that takes longer hangs, on a machine however slow and busy and with any sanitizer.
set(FERMATA_HANG_S 600)

# fermata_test(LIB NAME [COST seconds] [DEPS target…]): tests/unit/LIB/NAME.c, a Criterion program, as ctest "LIB/NAME" with label unit.
# Target `unit-tests` builds what the tests with that label run, and nothing else.
add_custom_target(unit-tests)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS tests/one-thread.txt)
file(STRINGS tests/one-thread.txt ONE_THREAD REGEX "^[a-z]")
function(fermata_test lib name)
  cmake_parse_arguments(A "" "COST" "DEPS" ${ARGN})
  add_executable(${lib}_${name} ${name}.c)
  target_include_directories(${lib}_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${lib}_${name} PRIVATE fermata_flags ${lib} ${A_DEPS} criterion)
  set_target_properties(${lib}_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(FERMATA_SANITIZE STREQUAL "thread" AND "${lib}/${name}" IN_LIST ONE_THREAD)
    return()
  endif()
  add_dependencies(unit-tests ${lib}_${name})
  add_test(NAME ${lib}/${name} COMMAND ${lib}_${name} -j1 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(NOT A_COST)
    set(A_COST 120)
  endif()
  # ctest begins with what costs most, so that no long test is left to one core at the end.
  set_tests_properties(${lib}/${name} PROPERTIES LABELS unit TIMEOUT ${FERMATA_HANG_S} COST ${A_COST})
endfunction()

# fermata_bench(NAME SOURCES file… DEPS target…): a benchmark program in bin/, run by `make bench`.
function(fermata_bench name)
  fermata_helper(${name} ${ARGN})
endfunction()
