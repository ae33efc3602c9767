# The page (web/), built to static files that become a part of the command. Node.js is needed to build it and for nothing
# else: where it, or the packages of web/, are missing, the command is built without the page and says so. Nothing is
# fetched here: `npm ci --prefix web` does that, once (make build does it where it can).
find_program(NPM npm)
mark_as_advanced(NPM)
option(TRIREME_WITH_PAGE "Build the page into the command, where Node.js and web/node_modules are there" ON)

set(web_sources ${PROJECT_BINARY_DIR}/web/web_files.cc)
set(web_embed ${CMAKE_COMMAND} -DOUT=${web_sources} -P ${PROJECT_SOURCE_DIR}/cmake/embed_web.cmake)
if(TRIREME_WITH_PAGE AND NPM AND EXISTS ${PROJECT_SOURCE_DIR}/web/node_modules/vite)
  set(web_dist ${PROJECT_BINARY_DIR}/web/dist)
  file(GLOB web_inputs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/web/src/* ${PROJECT_SOURCE_DIR}/web/*.html
    ${PROJECT_SOURCE_DIR}/web/*.json ${PROJECT_SOURCE_DIR}/web/*.ts)
  add_custom_command(OUTPUT ${web_sources}
    COMMAND ${NPM} --silent --prefix ${PROJECT_SOURCE_DIR}/web run build -- --outDir ${web_dist} --emptyOutDir --logLevel warn
    COMMAND ${CMAKE_COMMAND} -DDIST=${web_dist} -DOUT=${web_sources} -P ${PROJECT_SOURCE_DIR}/cmake/embed_web.cmake
    DEPENDS ${web_inputs} cmake/embed_web.cmake COMMENT "Building the page" VERBATIM)
else()
  message(STATUS "Without the page of runs: it needs Node.js, npm and their packages (npm ci --prefix web)")
  add_custom_command(OUTPUT ${web_sources} COMMAND ${web_embed} DEPENDS cmake/embed_web.cmake VERBATIM)
endif()
set_source_files_properties(${web_sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
