# Part of `cmake --install`: texts that the program writes, and the unit with its path. install.cmake sets the variables.
# file(INSTALL) heeds DESTDIR.

# A folder below the prefix; one that is stated as an absolute path stays as it is.
function(below_prefix out folder)
  cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE)
  set(${out} "${folder}" PARENT_SCOPE)
endfunction()

function(install_output name destination)  # tombolo's words follow
  below_prefix(destination "${destination}")
  file(MAKE_DIRECTORY "${folder}")
  execute_process(COMMAND "${program}" ${ARGN} OUTPUT_FILE "${folder}/${name}" COMMAND_ERROR_IS_FATAL ANY)
  file(INSTALL DESTINATION "${destination}" TYPE FILE FILES "${folder}/${name}")
endfunction()

function(install_page)  # compressed, as the pages of other programs are
  below_prefix(destination "${mandir}/man1")
  file(MAKE_DIRECTORY "${folder}")
  execute_process(COMMAND "${program}" help --man COMMAND gzip -9n OUTPUT_FILE "${folder}/tombolo.1.gz" COMMAND_ERROR_IS_FATAL ANY)
  file(INSTALL DESTINATION "${destination}" TYPE FILE FILES "${folder}/tombolo.1.gz")
endfunction()

function(install_texts)
  install_page()
  install_output(tombolo "${datadir}/bash-completion/completions" completion bash)
  install_output(tombolo.fish "${datadir}/fish/vendor_completions.d" completion fish)
  # Debian's zsh reads functions of packages in one folder and those of an administrator in another.
  set(functions site-functions)
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set(functions vendor-completions)
  endif()
  install_output(_tombolo "${datadir}/zsh/${functions}" completion zsh)
endfunction()

function(install_unit)
  set(name tombolo-rank@.service)
  below_prefix(installed "${bindir}/tombolo")
  if(installed MATCHES " ")
    set(installed "\"${installed}\"")
  endif()
  file(READ "${source}/examples/systemd/${name}" unit)
  string(REPLACE "ExecStart=/usr/local/bin/tombolo " "ExecStart=${installed} " unit "${unit}")
  file(WRITE "${folder}/${name}" "${unit}")
  below_prefix(units lib/systemd/system)
  file(INSTALL DESTINATION "${units}" TYPE FILE FILES "${folder}/${name}")
endfunction()

# The headers of groups of modules, as <tombolo/GROUP/...>: what they include of each other says so, too. The macro CHECK stays at
# home: other libraries have theirs.
function(install_headers destination)  # groups follow
  file(REMOVE_RECURSE "${folder}/include")
  list(JOIN ARGN "|" groups)
  foreach(group ${ARGN})
    file(GLOB_RECURSE headers RELATIVE "${source}/src" "${source}/src/${group}/*.h" "${source}/src/${group}/*.inc")
    foreach(header ${headers})
      file(READ "${source}/src/${header}" text)
      string(REGEX REPLACE "#include \"(${groups})/" "#include \"tombolo/\\1/" text "${text}")
      string(REPLACE "#define CHECK TOMBOLO_CHECK\n" "" text "${text}")
      string(REGEX REPLACE "#undef CHECK[^\n]*\n" "" text "${text}")
      string(REGEX REPLACE "([^_A-Z])CHECK\\(" "\\1TOMBOLO_CHECK(" text "${text}")
      file(WRITE "${folder}/include/tombolo/${header}" "${text}")
    endforeach()
  endforeach()
  below_prefix(destination "${destination}")
  file(INSTALL DESTINATION "${destination}" TYPE DIRECTORY FILES "${folder}/include/tombolo")
endfunction()
