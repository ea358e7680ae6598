# cmake --install build/PRESET --component library: what find_package(Tombolo) finds (docs/guide/library.md). The package of Debian is
# libtombolo-dev. An installation without --component leaves it out.
#
# Public are the targets Tombolo::spec, Tombolo::predict and Tombolo::decide, and the headers of these groups and of those that they
# stand on. Each module is an archive with a target of its own, which nobody needs to name.
if(NOT TARGET tombolo OR TOMBOLO_SANITIZE)
  return()
endif()
include(CMakePackageConfigHelpers)
set(library_groups base spec steer predict decide)
set(library_headers ${CMAKE_INSTALL_INCLUDEDIR}/tombolo-${PROJECT_VERSION})
set(library_archives ${CMAKE_INSTALL_LIBDIR}/tombolo-${PROJECT_VERSION})
set(library_config ${CMAKE_INSTALL_LIBDIR}/cmake/Tombolo-${PROJECT_VERSION})

foreach(group ${library_groups})
  add_library(tombolo_group_${group} INTERFACE)
  set_target_properties(tombolo_group_${group} PROPERTIES EXPORT_NAME ${group})
  target_include_directories(tombolo_group_${group} INTERFACE $<INSTALL_INTERFACE:${library_headers}>)
  target_compile_features(tombolo_group_${group} INTERFACE cxx_std_20)
  # What headers compute is computed as the archives do.
  target_compile_options(tombolo_group_${group} INTERFACE -ffp-contract=off)
  set(group_modules ${TOMBOLO_MODULES})
  list(FILTER group_modules INCLUDE REGEX "^${group}(/|$)")
  foreach(module ${group_modules})
    cmake_path(GET module FILENAME name)
    string(REPLACE "/" "_" exported "module_${module}")
    set_target_properties(tombolo_${name} PROPERTIES EXPORT_NAME ${exported})
    target_link_libraries(tombolo_group_${group} INTERFACE tombolo_${name})
    install(TARGETS tombolo_${name} EXPORT Tombolo ARCHIVE DESTINATION ${library_archives} COMPONENT library EXCLUDE_FROM_ALL)
  endforeach()
  install(TARGETS tombolo_group_${group} EXPORT Tombolo)
endforeach()

write_basic_package_version_file(generated/TomboloConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_package_config_file(cmake/TomboloConfig.cmake.in generated/TomboloConfig.cmake INSTALL_DESTINATION ${library_config})
install(FILES ${PROJECT_BINARY_DIR}/generated/TomboloConfig.cmake ${PROJECT_BINARY_DIR}/generated/TomboloConfigVersion.cmake
        DESTINATION ${library_config} COMPONENT library EXCLUDE_FROM_ALL)
install(EXPORT Tombolo NAMESPACE Tombolo:: FILE TomboloTargets.cmake DESTINATION ${library_config} COMPONENT library EXCLUDE_FROM_ALL)
install(CODE "
  set(source \"${PROJECT_SOURCE_DIR}\")
  set(folder \"${PROJECT_BINARY_DIR}/generated\")
  include(\"${PROJECT_SOURCE_DIR}/cmake/install_generated.cmake\")
  install_headers(\"${library_headers}\" ${library_groups})" COMPONENT library EXCLUDE_FROM_ALL)

# Its examples, the jobs that they read, and the licences of headers that are compiled into the archives.
list(APPEND TOMBOLO_COMPONENTS library)
set(folder ${CMAKE_INSTALL_DATAROOTDIR}/doc/libtombolo-dev)
install(FILES packaging/copyright DESTINATION ${folder} COMPONENT library EXCLUDE_FROM_ALL)
foreach(example library planning toy)
  install(DIRECTORY examples/${example} DESTINATION ${folder}/examples COMPONENT library EXCLUDE_FROM_ALL)
endforeach()
install_licences(${folder} library)
