# SPDX-License-Identifier: Apache-2.0
# Compiler flags, carried by the interface target `octet_flags`.
#
# Results must not depend on what a compiler thinks it may fuse, so contraction is off everywhere and
# neither -ffast-math nor -march=native is used; wider instructions come from kernels/x86 alone.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_C_FLAGS_RELEASE "-O3 -g1")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g -fno-omit-frame-pointer")
set(CMAKE_C_FLAGS_DEBUG "-O1 -g -fno-omit-frame-pointer")

set(OCT_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
    -Wpointer-arith -Wcast-qual -Wundef -Wwrite-strings)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$" AND CMAKE_SIZEOF_VOID_P EQUAL 8)
    set(OCT_X86 ON)
else()
    set(OCT_X86 OFF)
endif()

add_library(octet_flags INTERFACE)
target_include_directories(octet_flags INTERFACE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(octet_flags INTERFACE
    _POSIX_C_SOURCE=200809L $<$<NOT:$<BOOL:${OCT_X86}>>:OCT_NO_X86>)
target_compile_options(octet_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:C>:${OCT_WARNINGS}>" $<$<BOOL:${OCT_WERROR}>:-Werror> -ffp-contract=off -fvisibility=hidden)

# Every object is instrumented, so these are global rather than properties of a target.
set(OCT_LINK_FLAGS)
if(OCT_SANITIZE)
    add_compile_options(-fsanitize=${OCT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${OCT_SANITIZE})
endif()
if(OCT_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "OCT_FUZZ needs Clang, this is ${CMAKE_C_COMPILER_ID}: use the preset 'fuzz'")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)
    set(OCT_SHARED OFF)
endif()
