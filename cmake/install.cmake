# cmake --install build/PRESET [--prefix P] [--component C]. A component is a package of the same name: `tombolo` plans and has the
# documents, `tombolo-worker` trains, `tombolo-islands` emulates a WAN, `tombolo-mpi` is there where MPI was found.
#
# All programs go into one folder: each finds the others next to itself.
include(GNUInstallDirs)
set(TOMBOLO_COMPONENTS tombolo tombolo-worker tombolo-islands)
if(TARGET tombolo-mpi)
  list(APPEND TOMBOLO_COMPONENTS tombolo-mpi)
endif()
foreach(component ${TOMBOLO_COMPONENTS})
  install(TARGETS ${component} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component})
  install(FILES packaging/copyright DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${component} COMPONENT ${component})
endforeach()

# The folders keep their places: links between documents lead somewhere, and examples/replicas trains on ../../LICENSE.
install(FILES README.md INSTALL.md CHANGELOG.md SECURITY.md CITATION.cff LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tombolo)
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tombolo)

# Licences of what is compiled into the programs: a script, and libraries that are headers alone.
foreach(library libjs-d3 libtomlplusplus-dev nlohmann-json3-dev libcli11-dev libexpected-dev libasio-dev libeigen3-dev)
  install(FILES /usr/share/doc/${library}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences RENAME ${library} COMPONENT tombolo OPTIONAL)
endforeach()

# What the program says of itself, and what names the place where it is: both are known when it is installed.
set(generated "set(program \"$<TARGET_FILE:tombolo>\")
set(source \"${PROJECT_SOURCE_DIR}\")
set(folder \"${PROJECT_BINARY_DIR}/generated\")
set(bindir \"${CMAKE_INSTALL_BINDIR}\")
set(mandir \"${CMAKE_INSTALL_MANDIR}\")
set(datadir \"${CMAKE_INSTALL_DATADIR}\")
include(\"${PROJECT_SOURCE_DIR}/cmake/install_generated.cmake\")")
install(CODE "${generated}\ninstall_texts()" COMPONENT tombolo)
install(CODE "${generated}\ninstall_unit()" COMPONENT tombolo-worker)
