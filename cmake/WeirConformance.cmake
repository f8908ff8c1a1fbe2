# SPDX-License-Identifier: Apache-2.0
#
# The conformance suite. conformance/*.cpp but main.cpp -> objects weir_conformance_suite (its own tests link it), with
# main.cpp -> bin/weir-conformance. It knows the backend ABI and nothing else of Weir. tests/mutants/*.cpp -> backends with a
# planted fault each, in <build>/lib/mutants. tests/conformance/faulty_backend.cpp -> one that fails in all the ways that the
# suite has to tell, in <build>/lib/conformance.

weir_glob(weir_conformance_sources "conformance/*.cpp")
set(weir_conformance_main ${PROJECT_SOURCE_DIR}/conformance/main.cpp)
list(REMOVE_ITEM weir_conformance_sources ${weir_conformance_main})
if(weir_conformance_sources)
  # Which suite it is: looked up at each build, since a result counts for a tag and a clean tree only.
  set(weir_suite_folder ${CMAKE_BINARY_DIR}/generated/conformance)
  add_custom_target(weir_conformance_version
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
      -DOUT=${weir_suite_folder}/conformance_version.hpp -P ${PROJECT_SOURCE_DIR}/cmake/conformance-version.cmake
    BYPRODUCTS ${weir_suite_folder}/conformance_version.hpp)
  add_library(weir_conformance_suite OBJECT ${weir_conformance_sources})
  weir_batches(weir_conformance_suite)
  weir_hastily(weir_conformance_suite)
  add_dependencies(weir_conformance_suite weir_conformance_version)
  target_include_directories(weir_conformance_suite PRIVATE ${weir_suite_folder})
  target_link_libraries(weir_conformance_suite PRIVATE weir_build)
  add_executable(weir_conformance ${weir_conformance_main})
  set_target_properties(weir_conformance PROPERTIES OUTPUT_NAME weir-conformance)
  target_link_libraries(weir_conformance PRIVATE weir_conformance_suite weir_build)
endif()

# The mutants: one library, in which WEIR_MUTANT chooses the fault, and the list of them. What a sanitizer would find there
# are the planted faults, which the plain build's suite has to find.
if(WEIR_BUILD_TESTS AND TARGET weir_host AND NOT WEIR_SANITIZE)
  weir_glob(weir_mutant_sources "tests/mutants/*.cpp")
  set(weir_mutant_list ${PROJECT_SOURCE_DIR}/tests/mutants/list.cpp)
  list(REMOVE_ITEM weir_mutant_sources ${weir_mutant_list})
  # Never in batches: each file of faults has the same names.
  weir_object_library(weir_mutant_faults ${weir_mutant_sources})
  weir_backend_plugin(weir_backend_mutant mutants weir_mutant_faults weir_host weir_backend_common)
  add_executable(weir_mutants ${weir_mutant_list})
  target_link_libraries(weir_mutants PRIVATE weir_mutant_faults weir_host weir_backend_common weir_build)
  weir_backend_plugin(weir_backend_faulty conformance ${PROJECT_SOURCE_DIR}/tests/conformance/faulty_backend.cpp weir_host weir_backend_common)
endif()
