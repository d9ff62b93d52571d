# SPDX-License-Identifier: Apache-2.0
# Plug-ins: one file and one row.
#
#   oct_plugins(SOURCES DEF SYMBOL [FILE])
#
# reads rows such as OCT_DATASET(cifar10) from DEF and sees to it that the row is what builds the file
# FILEcifar10.c in DEF's folder: a row without its file stops the configuration, and a file that
# exports the constant SYMBOLcifar10 without a row is left out of SOURCES. A change of DEF configures
# anew.
function(oct_plugins sources_name def symbol)
    set(file_prefix "${ARGV3}")
    if(NOT EXISTS ${CMAKE_SOURCE_DIR}/${def})
        return()
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${def})
    get_filename_component(folder ${def} DIRECTORY)
    file(STRINGS ${CMAKE_SOURCE_DIR}/${def} lines REGEX "^OCT_[A-Z]+\\(")
    set(rows)
    foreach(line IN LISTS lines)
        string(REGEX MATCH "^OCT_[A-Z]+\\(([a-z0-9_]+)" _ "${line}")
        if(CMAKE_MATCH_1 STREQUAL "")
            message(FATAL_ERROR "${def}: cannot read the row '${line}'")
        endif()
        set(row ${CMAKE_MATCH_1})
        if(row IN_LIST rows)
            message(FATAL_ERROR "${def}: two rows are called '${row}'")
        endif()
        list(APPEND rows ${row})
        if(NOT EXISTS ${CMAKE_SOURCE_DIR}/${folder}/${file_prefix}${row}.c)
            message(FATAL_ERROR "${def} has the row '${line}', but there is no ${folder}/${file_prefix}${row}.c")
        endif()
    endforeach()

    set(kept)
    foreach(source IN LISTS ${sources_name})
        if(source MATCHES "/${folder}/${file_prefix}([^/]+)\\.c$" AND NOT CMAKE_MATCH_1 IN_LIST rows)
            set(row ${CMAKE_MATCH_1})
            file(STRINGS ${source} exported REGEX "^const struct [a-z_]+ ${symbol}${row} =")
            if(exported)
                message(STATUS "${folder}/${file_prefix}${row}.c has no row in ${def}: not built")
                continue()
            endif()
        endif()
        list(APPEND kept ${source})
    endforeach()
    set(${sources_name} ${kept} PARENT_SCOPE)
endfunction()
