# cpack -G DEB: a Debian package for each component (install.cmake). tools/package calls it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tombolo)
set(CPACK_PACKAGE_VENDOR "The Tombolo authors")
# A package has to name an address; who distributes these packages states their own.
set(CPACK_PACKAGE_CONTACT "The Tombolo authors <tombolo@localhost>")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
# The unit names the place where programs will be, whatever the prefix of this build tree is.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL ${TOMBOLO_COMPONENTS})
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)

# Packages of two releases of Debian need different libraries, and have different names.
file(STRINGS /etc/os-release release REGEX "^VERSION_ID=")
string(REGEX REPLACE "[^0-9.]" "" release "${release}")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1~deb${release})
set(version ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

function(tombolo_package component depends suggests description)
  string(TOUPPER ${component} name)
  set(CPACK_DEBIAN_${name}_PACKAGE_NAME ${component} PARENT_SCOPE)
  set(CPACK_DEBIAN_${name}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)  # and what dpkg-shlibdeps finds
  set(CPACK_DEBIAN_${name}_PACKAGE_SUGGESTS "${suggests}" PARENT_SCOPE)
  set(CPACK_COMPONENT_${name}_DESCRIPTION "${description}" PARENT_SCOPE)
endfunction()

tombolo_package(tombolo "" "tombolo-worker (= ${version}), tombolo-islands (= ${version}), bash-completion"
  "plans and simulates model training over slow networks
Predicts how long an iteration of large-model training takes where the network
between the machines is the bottleneck, and finds the parallelism, the
datacenters and the schedule that are best. tombolo-worker performs plans.")
# LibTorch takes whichever BLAS is there; with Debian's default one products of matrices take fifteen times as long.
set(worker_needs "tombolo (= ${version})")
if(TOMBOLO_TORCH)
  string(APPEND worker_needs ", libopenblas0-pthread")
endif()
tombolo_package(tombolo-worker "${worker_needs}" ""
  "trains models over slow networks
The program that performs a rank of a run of tombolo: it trains on CPUs with
LibTorch, answers prompts, or emulates accelerators with real messages.")
tombolo_package(tombolo-islands "tombolo (= ${version}), iproute2" "tombolo-worker (= ${version})"
  "emulates datacenters and a WAN between them on one machine
Turns every node of a cluster file into a network namespace and joins them by
links with the stated delay, rate, jitter and loss. Needs root to run.")
tombolo_package(tombolo-mpi "tombolo (= ${version})" "openmpi-bin"
  "sweeps of tombolo as several processes of Open MPI
The program that tombolo sweep becomes when mpirun starts it.")
if(TARGET tombolo_python_module)
  # Its module is loaded by one version of Python alone.
  string(REGEX MATCH "([0-9]+)\\.([0-9]+)" python ${TOMBOLO_PYTHON_VERSION})
  math(EXPR next "${CMAKE_MATCH_2} + 1")
  tombolo_package(python "python3 (>= ${TOMBOLO_PYTHON_VERSION}~), python3 (<< ${CMAKE_MATCH_1}.${next})" "python3-pandas, tombolo"
    "plans model training over slow networks from Python
The package tombolo for Python: jobs as dicts, answers as dataclasses, tables
and pages in notebooks. It plans and predicts in the process that asks, and
needs no other package of Tombolo; tombolo-worker performs plans.")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-tombolo)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/python/postinst ${PROJECT_SOURCE_DIR}/packaging/python/prerm)
endif()
if(library IN_LIST TOMBOLO_COMPONENTS)
  tombolo_package(library "libfmt-dev, libexpected-dev, libyaml-cpp-dev, zlib1g-dev, libnlopt-dev, libxxhash-dev, pkg-config" "g++, cmake, tombolo"
    "plans and predicts model training over slow networks from C++
Headers and archives of the planner and the simulators of tombolo, for
find_package(Tombolo) of CMake: job files, plans, schedules, network laws,
searches; with examples.")
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libtombolo-dev)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
endif()
include(CPack)
