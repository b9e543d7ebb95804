# Messages generated from the official definitions (npm, pinned in proto/package-lock.json) and
# from proto/muster. No gRPC stubs are generated: src/server serves methods through one generic
# service and one transcoder, both driven by descriptors.

set(npm_dir ${CMAKE_SOURCE_DIR}/proto/node_modules)
if(NOT EXISTS ${npm_dir}/@google-cloud/aiplatform/package.json)
  message(STATUS "Fetching the official API definitions (npm ci in proto/)")
  execute_process(COMMAND npm ci --ignore-scripts --no-audit --no-fund
                  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/proto COMMAND_ERROR_IS_FATAL ANY)
endif()

# One include root: aiplatform's and gax's protos do not overlap except for identical files.
set(proto_root ${CMAKE_BINARY_DIR}/protos)
file(COPY ${npm_dir}/google-gax/build/protos/google/api ${npm_dir}/google-gax/build/protos/google/rpc
          ${npm_dir}/google-gax/build/protos/google/longrunning ${npm_dir}/google-gax/build/protos/google/type
     DESTINATION ${proto_root}/google)
file(COPY ${npm_dir}/@google-cloud/aiplatform/build/protos/google/cloud/aiplatform/v1
     DESTINATION ${proto_root}/google/cloud/aiplatform)

set(official_roots google/cloud/aiplatform/v1/job_service.proto google/longrunning/operations.proto)

# All files that the roots import, without google/protobuf (libprotobuf has those).
function(muster_proto_closure out)
  set(todo ${ARGN})
  set(done "")
  while(todo)
    list(POP_FRONT todo file)
    if(file IN_LIST done OR file MATCHES "^google/protobuf/")
      continue()
    endif()
    list(APPEND done ${file})
    file(STRINGS ${proto_root}/${file} imports REGEX "^import ")
    foreach(line ${imports})
      string(REGEX REPLACE "^import +(public +)?\"([^\"]+)\".*" "\\2" import "${line}")
      list(APPEND todo ${import})
    endforeach()
  endwhile()
  set(${out} ${done} PARENT_SCOPE)
endfunction()

function(muster_proto_library target root)
  set(generated "")
  foreach(file ${ARGN})
    string(REGEX REPLACE "\\.proto$" "" stem ${file})
    set(cc ${CMAKE_BINARY_DIR}/generated/${stem}.pb.cc)
    add_custom_command(
      OUTPUT ${cc} ${CMAKE_BINARY_DIR}/generated/${stem}.pb.h
      COMMAND protobuf::protoc --cpp_out=${CMAKE_BINARY_DIR}/generated -I${root} -I${proto_root}
              ${root}/${file}
      DEPENDS ${root}/${file} VERBATIM)
    list(APPEND generated ${cc})
  endforeach()
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated)
  add_library(${target} STATIC ${generated})
  # Not hot code: -O1 halves the time of this, the largest part of the build.
  target_compile_options(${target} PRIVATE -O1 -g0 -w)
  target_include_directories(${target} SYSTEM PUBLIC ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(${target} PUBLIC protobuf::libprotobuf)
endfunction()

muster_proto_closure(official_protos ${official_roots})
muster_proto_library(muster_official_protos ${proto_root} ${official_protos})

file(GLOB muster_proto_files RELATIVE ${CMAKE_SOURCE_DIR}/proto ${CMAKE_SOURCE_DIR}/proto/muster/v1/*.proto)
muster_proto_library(muster_protos ${CMAKE_SOURCE_DIR}/proto ${muster_proto_files})
target_link_libraries(muster_protos PUBLIC muster_official_protos)
