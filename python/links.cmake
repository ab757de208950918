# usage: cmake -D FROM=folder -D TO=folder -P links.cmake
# Makes each file and folder of FROM appear in TO. Links to what is gone from FROM are removed.
file(MAKE_DIRECTORY ${TO})
file(GLOB old LIST_DIRECTORIES true ${TO}/*)
foreach(path ${old})
  if(IS_SYMLINK ${path} AND NOT EXISTS ${path})
    file(REMOVE ${path})
  endif()
endforeach()
file(GLOB entries LIST_DIRECTORIES true RELATIVE ${FROM} ${FROM}/*)
list(FILTER entries EXCLUDE REGEX "^__pycache__$")
foreach(entry ${entries})
  file(CREATE_LINK ${FROM}/${entry} ${TO}/${entry} SYMBOLIC)
endforeach()
