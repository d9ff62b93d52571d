# SPDX-License-Identifier: Apache-2.0
# The engine `cuda`: kernels of src/engine/cuda compiled by nvcc, the runtime linked statically.
#
# nvcc is called by its own command rather than as a language of CMake: that would ask for a C++
# compiler and link everything by its rules, for the sake of a few objects.
oct_wanted(CUDA "training on NVIDIA GPUs by CUDA")
set(OCT_CUDA_ARCHITECTURES "80;90" CACHE STRING "compute capabilities to compile for, as in 80;90")
set(usable OFF)
set(why "nvcc not found")
set(cuda_version "")
if(wanted AND OCT_SANITIZE)
    set(wanted OFF) # the sanitizers know nothing of a GPU, and its driver leaks
elseif(wanted)
    find_program(OCT_NVCC nvcc HINTS ENV CUDA_HOME PATH_SUFFIXES bin PATHS /usr/local/cuda)
    mark_as_advanced(OCT_NVCC)
    if(OCT_NVCC)
        execute_process(COMMAND ${OCT_NVCC} --version OUTPUT_VARIABLE said ERROR_QUIET)
        string(REGEX MATCH "release ([0-9.]+)" _ "${said}")
        set(cuda_version ${CMAKE_MATCH_1})
        get_filename_component(nvcc_real ${OCT_NVCC} REALPATH)
        get_filename_component(cuda_root ${nvcc_real}/../.. ABSOLUTE)
        find_library(OCT_CUDART_LIBRARY cudart_static
            HINTS ${cuda_root}/lib64 ${cuda_root}/targets/x86_64-linux/lib)
        find_path(OCT_CUDA_INCLUDE cuda_runtime_api.h
            HINTS ${cuda_root}/include ${cuda_root}/targets/x86_64-linux/include)
        mark_as_advanced(OCT_CUDART_LIBRARY OCT_CUDA_INCLUDE)
        if(cuda_version VERSION_LESS 12.0)
            set(why "nvcc is version ${cuda_version} and Octet needs 12 or later")
        elseif(OCT_CUDART_LIBRARY AND OCT_CUDA_INCLUDE)
            set(usable ON)
            target_include_directories(octet_dependencies SYSTEM INTERFACE ${OCT_CUDA_INCLUDE})
            oct_link_item("${OCT_CUDART_LIBRARY}" item)
            list(APPEND OCT_LIBRARIES ${item} -ldl -lrt)
        else()
            set(why "libcudart_static or cuda_runtime_api.h not found beside nvcc")
        endif()
    endif()
endif()
oct_settle(CUDA usable "CUDA ${cuda_version}" "${why}" "nvidia-cuda-toolkit, or NVIDIA's own")

# oct_cuda_objects(RESULT): compiles every kernel file; RESULT lists the objects.
function(oct_cuda_objects result)
    set(objects)
    set(targets)
    foreach(architecture IN LISTS OCT_CUDA_ARCHITECTURES)
        list(APPEND targets -gencode arch=compute_${architecture},code=sm_${architecture})
    endforeach()
    list(GET OCT_CUDA_ARCHITECTURES -1 last)
    list(APPEND targets -gencode arch=compute_${last},code=compute_${last}) # and what comes later
    set(host_flags -fPIC,-fvisibility=hidden,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics,-Wall)
    file(GLOB sources CONFIGURE_DEPENDS src/engine/cuda/*.cu)
    foreach(source IN LISTS sources)
        get_filename_component(name ${source} NAME_WE)
        set(object ${CMAKE_BINARY_DIR}/cuda/${name}.o)
        add_custom_command(OUTPUT ${object}
            COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/cuda
            COMMAND ${OCT_NVCC} -std=c++17 -O3 --fmad=false ${targets} -Xcompiler ${host_flags}
                -I${CMAKE_SOURCE_DIR}/include -I${CMAKE_SOURCE_DIR}/src -D_POSIX_C_SOURCE=200809L
                -MD -MF ${object}.d -c ${source} -o ${object}
            DEPENDS ${source} DEPFILE ${object}.d
            COMMENT "Compiling cuda/${name}.cu" VERBATIM)
        list(APPEND objects ${object})
    endforeach()
    set(${result} ${objects} PARENT_SCOPE)
endfunction()
