# SPDX-License-Identifier: Apache-2.0
# embed.cmake - files become a C array that the program carries with it.
#
#   cmake -DFOLDER=experiments -DOUT=experiments.c -P embed.cmake
#
# Bytes rather than strings: a compiler need not take a string of more than 4,095 characters.
file(GLOB_RECURSE files RELATIVE ${FOLDER} ${FOLDER}/*.csv ${FOLDER}/*.yaml)
list(SORT files)
set(arrays)
set(rows)
set(i 0)
foreach(file IN LISTS files)
    file(READ ${FOLDER}/${file} bytes HEX)
    string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(APPEND arrays "static const unsigned char file_${i}[] = { /* ${file} */\n${bytes}0};\n")
    string(APPEND rows "    {\"${file}\", file_${i}, sizeof file_${i} - 1},\n")
    math(EXPR i "${i} + 1")
endforeach()
file(WRITE ${OUT}
    "/* Made by cmake/embed.cmake from experiments/: do not edit. */\n#include \"paper.h\"\n\n"
    "${arrays}\nconst struct paper_file paper_files[] = {\n${rows}    {NULL, NULL, 0},\n};\n")
