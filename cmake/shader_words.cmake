# SPDX-License-Identifier: Apache-2.0
#
# Puts braces around the words of a shader that glslangValidator -x wrote, so that C can take them for an array:
# cmake -DWORDS=FILE -DOUT=FILE -P shader_words.cmake
file(READ ${WORDS} words)
file(WRITE ${OUT} "{${words}}\n")
