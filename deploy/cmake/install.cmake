# What is built on an installed embers: headers, libraries and find_package(embers), whose components are `model`, for a
# user's own model, and `client`, for programs that join a running job. Programs install themselves (embers_program).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(embers_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/embers)
function(embers_install_library library component)
  set_target_properties(embers_${library} PROPERTIES EXPORT_NAME ${library}
                        INSTALL_RPATH "$ORIGIN;$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  # Headers include each other as "model/layers/model.h".
  target_include_directories(embers_${library} INTERFACE
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/embers>)
  install(TARGETS embers_${library} EXPORT embers_${component}_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()
# What both components share comes first.
foreach(library base schema job)
  embers_install_library(${library} shared)
endforeach()
foreach(library data model)
  embers_install_library(${library} model)
endforeach()
embers_install_library(client client)
set_target_properties(embers_client PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)  # a CAF in its own prefix

foreach(library base schema job data model)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/${library}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/embers/${library}
          FILES_MATCHING PATTERN "*.h")
endforeach()
foreach(header admin session joining/options)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${CMAKE_SOURCE_DIR}/client/${header}.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/embers/client/${folder})
endforeach()
install(DIRECTORY ${CMAKE_BINARY_DIR}/schema/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/embers/schema
        FILES_MATCHING PATTERN "*.capnp.h" PATTERN "message_kinds.h" PATTERN CMakeFiles EXCLUDE)

# Headers that users' models and programs may include by the paths they had before they were moved into folders.
function(embers_forward_header old new)
  file(CONFIGURE OUTPUT forwarding/${old} CONTENT
       "#pragma once\n\n// Moved: include the header below.\n#include \"${new}\"  // IWYU pragma: export\n" @ONLY)
  cmake_path(GET old PARENT_PATH folder)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/forwarding/${old} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/embers/${folder})
endfunction()
foreach(header batch dropout embedding layers model pair_products random regularizer)
  embers_forward_header(model/${header}.h model/layers/${header}.h)
endforeach()
embers_forward_header(model/feature_column.h model/columns/feature_column.h)
embers_forward_header(model/combine.h model/lookup/combiner.h)
embers_forward_header(schema/errors.h base/errors.h)
embers_forward_header(schema/suggest.h base/suggest.h)
embers_forward_header(data/job.h job/job.h)
embers_forward_header(client/options.h client/joining/options.h)

foreach(component shared model client)
  install(EXPORT embers_${component}_targets NAMESPACE embers:: DESTINATION ${embers_package_dir})
endforeach()
configure_package_config_file(${CMAKE_SOURCE_DIR}/deploy/cmake/embersConfig.cmake.in embersConfig.cmake
                              INSTALL_DESTINATION ${embers_package_dir})
write_basic_package_version_file(embersConfigVersion.cmake COMPATIBILITY ExactVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/embersConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/embersConfigVersion.cmake
        DESTINATION ${embers_package_dir})
