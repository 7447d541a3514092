# Options of every target of this project, and the macro that makes a folder's target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# fmt in its header-only form makes a library that needs no other at run time; the shared library
# compiles in half the time.
option(FUSEDMOE_FMT_HEADER_ONLY "Compile fmt into the library instead of linking it" ON)
if(FUSEDMOE_FMT_HEADER_ONLY)
  set(FUSEDMOE_FMT fmt::fmt-header-only)
else()
  set(FUSEDMOE_FMT fmt::fmt)
endif()

# Contraction would let the compiler choose where an FMA is: bits are part of the contract, so every
# FMA is written out.
add_library(fusedmoe_options INTERFACE)
target_compile_options(fusedmoe_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
  -ffp-contract=off
  $<$<BOOL:${FUSEDMOE_WARNINGS_AS_ERRORS}>:-Werror>)

# fusedmoe_folder(<name> SOURCES ...): object target fusedmoe_<name>, part of the library.
function(fusedmoe_folder name)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  add_library(fusedmoe_${name} OBJECT ${ARG_SOURCES})
  target_include_directories(fusedmoe_${name} PRIVATE
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(fusedmoe_${name} PRIVATE
    fusedmoe_options Threads::Threads ${FUSEDMOE_FMT} nlohmann_json::nlohmann_json)
  target_sources(fusedmoe PRIVATE $<TARGET_OBJECTS:fusedmoe_${name}>)
endfunction()
