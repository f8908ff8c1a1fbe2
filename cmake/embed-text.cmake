# SPDX-License-Identifier: Apache-2.0
#
# cmake -DIN=FILE -DOUT=FILE.cpp -DHEADER=H -DNAMESPACE=N -DNAME=V -P embed-text.cmake: a C++ source that defines N::V, a
# string_view of the file's text.

file(READ ${IN} text)
string(FIND "${text}" ")weir_text\"" ends)
if(NOT ends EQUAL -1)
  message(FATAL_ERROR "${IN} contains the mark that ends the string it is put into")
endif()
file(WRITE ${OUT} "#include \"${HEADER}\"\nnamespace ${NAMESPACE} {\nconst std::string_view ${NAME} = R\"weir_text(${text})weir_text\";\n}\n")
