# cmake --install build/PRESET [--prefix P] [--component C]. A component is a package of the same name: `tombolo` plans and has the
# documents, `tombolo-worker` trains, `tombolo-islands` emulates a WAN, `tombolo-mpi` is there where MPI was found. `python`, with
# TOMBOLO_PYTHON, is the package python3-tombolo; `library` (library.cmake) is libtombolo-dev.
#
# All programs go into one folder: each finds the others next to itself.
include(GNUInstallDirs)
set(TOMBOLO_COMPONENTS)
foreach(component tombolo tombolo-worker tombolo-islands tombolo-mpi)
  if(TARGET ${component})
    list(APPEND TOMBOLO_COMPONENTS ${component})
    install(TARGETS ${component} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component})
    install(FILES packaging/copyright DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${component} COMPONENT ${component})
  endif()
endforeach()

# Licences of what is compiled into the programs: a script, and libraries that are headers alone.
function(install_licences destination component)
  set(excluded)
  if(component STREQUAL "library")
    set(excluded EXCLUDE_FROM_ALL)
  endif()
  foreach(library libjs-d3 libtomlplusplus-dev nlohmann-json3-dev libcli11-dev libexpected-dev libasio-dev libeigen3-dev ${ARGN})
    install(FILES /usr/share/doc/${library}/copyright DESTINATION ${destination}/licences RENAME ${library} COMPONENT ${component} OPTIONAL ${excluded})
  endforeach()
endfunction()

if(TARGET tombolo_python_module)
  list(APPEND TOMBOLO_COMPONENTS python)
  # Where the interpreter of that prefix looks. Below /usr and /usr/local this is Debian's choice; any other may be an environment of venv.
  install(CODE "
    set(python_folder lib/python${TOMBOLO_PYTHON_VERSION}/site-packages)
    if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
      set(python_folder lib/python3/dist-packages)
    elseif(CMAKE_INSTALL_PREFIX STREQUAL \"/usr/local\")
      set(python_folder lib/python${TOMBOLO_PYTHON_VERSION}/dist-packages)
    endif()" COMPONENT python)
  install(TARGETS tombolo_python_module LIBRARY DESTINATION "\${python_folder}/tombolo" COMPONENT python)
  install(DIRECTORY python/tombolo DESTINATION "\${python_folder}" COMPONENT python
          FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN py.typed PATTERN __pycache__ EXCLUDE)
  # What pip and importlib.metadata know of it.
  file(CONFIGURE OUTPUT generated/METADATA CONTENT "Metadata-Version: 2.1\nName: tombolo\nVersion: ${PROJECT_VERSION}\n")
  install(FILES ${PROJECT_BINARY_DIR}/generated/METADATA DESTINATION "\${python_folder}/tombolo-${PROJECT_VERSION}.dist-info" COMPONENT python)

  # The guide's examples, the scripts and the notebook: it is of use without the package `tombolo`.
  set(folder ${CMAKE_INSTALL_DATAROOTDIR}/doc/python3-tombolo)
  install(FILES packaging/copyright DESTINATION ${folder} COMPONENT python)
  foreach(example atlas planning python toy what-if)
    install(DIRECTORY examples/${example} DESTINATION ${folder}/examples COMPONENT python PATTERN __pycache__ EXCLUDE)
  endforeach()
  install_licences(${folder} python pybind11-dev)
endif()
if(NOT TARGET tombolo)
  return()
endif()

# The folders keep their places: links between documents lead somewhere, and examples/replicas trains on ../../LICENSE.
install(FILES README.md INSTALL.md CHANGELOG.md SECURITY.md CITATION.cff LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tombolo)
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tombolo)
install_licences(${CMAKE_INSTALL_DOCDIR} tombolo)

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
