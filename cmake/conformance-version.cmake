# SPDX-License-Identifier: Apache-2.0
#
# Writes which suite is built: cmake -DSOURCE=tree -DVERSION=x.y.z -DOUT=header -P this. The header is touched only
# when it changes. Without git, or outside a checkout, the tag is "unknown" and the tree is not known to be clean.
execute_process(COMMAND git -C ${SOURCE} describe --tags --always
  OUTPUT_VARIABLE tag OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
set(clean 0)
if(failed OR tag STREQUAL "")
  set(tag unknown)
else()
  execute_process(COMMAND git -C ${SOURCE} status --porcelain
    OUTPUT_VARIABLE changes ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed AND changes STREQUAL "")
    set(clean 1)
  endif()
endif()
set(text "// SPDX-License-Identifier: Apache-2.0\n//\n// Written by the build.\n#pragma once\n\
#define WEIR_SUITE_VERSION \"${VERSION}\"\n#define WEIR_SUITE_TAG \"${tag}\"\n#define WEIR_SUITE_CLEAN ${clean}\n")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT "${before}" STREQUAL "${text}")
  file(WRITE ${OUT} "${text}")
endif()
