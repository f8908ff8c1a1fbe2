# SPDX-License-Identifier: Apache-2.0
#
# cmake -DFOLDER=DIR -DOUT=FILE.html -P frag-page.cmake: one page of tools/weir/frag/page: the style and the scripts stand where page.html
# says. The scripts share one scope that nothing else sees; their order is that in which they need each other.
set(style "")
file(READ ${FOLDER}/page.css style)
set(script "\"use strict\";\n(() => {\n")
foreach(name IN ITEMS film colour search map timeline words page)
  file(READ ${FOLDER}/${name}.js text)
  string(APPEND script "${text}")
endforeach()
string(APPEND script "})();\n")
file(READ ${FOLDER}/page.html page)
foreach(mark IN ITEMS STYLE SCRIPT)
  string(FIND "${page}" "@WEIR_FRAG_${mark}@" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "page.html has no place for the ${mark}")
  endif()
endforeach()
string(REPLACE "@WEIR_FRAG_STYLE@" "${style}" page "${page}")
string(REPLACE "@WEIR_FRAG_SCRIPT@" "${script}" page "${page}")
file(WRITE ${OUT} "${page}")
