# Writes OUT, a C++ file that holds all files of the folder DIST: cmake -DDIST=… -DOUT=… -P embed_web.cmake
set(files)
if(DIST)  # else there is no page
  file(GLOB_RECURSE files RELATIVE ${DIST}/ ${DIST}/*)
endif()
set(arrays "")
set(rows "")
set(count 0)
foreach(name ${files})
  file(READ ${DIST}/${name} hex HEX)
  file(SIZE ${DIST}/${name} size)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "((0x[0-9a-f][0-9a-f],){32})" "\\1\n" bytes "${bytes}")
  set(type application/octet-stream)
  foreach(known "html=text/html$<SEMICOLON> charset=utf-8" "js=text/javascript" "css=text/css" "svg=image/svg+xml" "json=application/json")
    string(REPLACE "$<SEMICOLON>" "\\;" known "${known}")
    string(REGEX MATCH "^([a-z]+)=(.*)$" found "${known}")
    if(name MATCHES "\\.${CMAKE_MATCH_1}$")
      string(REGEX REPLACE "^[a-z]+=" "" type "${known}")
      string(REPLACE "\\;" ";" type "${type}")
    endif()
  endforeach()
  string(APPEND arrays "constexpr unsigned char kFile${count}[] = {\n${bytes}};\n")
  string(APPEND rows "    {\"/${name}\", \"${type}\", {reinterpret_cast<const char*>(kFile${count}), ${size}}},\n")
  math(EXPR count "${count} + 1")
endforeach()
if(count EQUAL 0)
  set(body "  return {};\n")
else()
  set(body "  static const trireme::dash::WebFile files[] = {\n${rows}  };\n  return files;\n")
endif()
file(WRITE ${OUT}.new "// Written by cmake/embed_web.cmake.
#include \"cli/start/run_page.h\"

namespace {
${arrays}
}  // namespace

std::span<const trireme::dash::WebFile> trireme::cli::web_files() {
${body}}
")
file(COPY_FILE ${OUT}.new ${OUT} ONLY_IF_DIFFERENT)
file(TOUCH_NOCREATE ${OUT})
