# SPDX-License-Identifier: Apache-2.0
# Language level, warnings and sanitizers, the same for every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# fmt is compiled into the library (base/format.cpp): its headers are needed here, libfmt nowhere.
find_path(AYATORI_FMT_INCLUDE fmt/core.h REQUIRED DOC "Headers of fmt 9 (Debian: libfmt-dev)")
mark_as_advanced(AYATORI_FMT_INCLUDE)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(AYATORI_CCACHE ccache)
  mark_as_advanced(AYATORI_CCACHE)
  if(AYATORI_CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER ${AYATORI_CCACHE})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${AYATORI_CCACHE})
  endif()
endif()

add_library(ayatori_options INTERFACE)
target_compile_options(ayatori_options INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-Wshadow;-fno-omit-frame-pointer;-g1>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
  $<$<AND:$<BOOL:${AYATORI_WERROR}>,$<COMPILE_LANGUAGE:C,CXX>>:-Werror>)

if(AYATORI_SANITIZE)
  string(REPLACE "," ";" _sanitizers "${AYATORI_SANITIZE}")
  foreach(_sanitizer IN LISTS _sanitizers)
    add_compile_options(-fsanitize=${_sanitizer})
    add_link_options(-fsanitize=${_sanitizer})
  endforeach()
  if("undefined" IN_LIST _sanitizers)
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
