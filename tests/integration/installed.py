"""Installs a build, moves the installation, and uses it from projects outside the tree: C and C++, CMake and pkg-config.

  installed.py ROOT BUILD WORK CMAKE C_COMPILER CXX_COMPILER ANSWER MODEL

ANSWER is the program of the tree whose line all of them must print.
"""
import os
import re
import shutil
import sys

from steps import expect_equal, must_fail, run

root, build, work, cmake, cc, cxx, answer, model = sys.argv[1:9]
here = os.path.join(root, "tests/integration")
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
prefix, sources = work + "/moved", work + "/sources"
wanted = run(answer, model)

# Moved after it was installed: nothing in it may remember where it was.
run(cmake, "--install", build, "--prefix", work + "/prefix")
os.rename(work + "/prefix", prefix)

# The consumers' files on their own, so that headers can come from the installation alone.
for name in ("tests/integration/answer.c", "tests/integration/answer.h", "examples/skeleton_backend/main.cpp",
             "examples/skeleton_backend/skeleton_backend.h"):
    os.makedirs(os.path.dirname(f"{sources}/{name}"), exist_ok=True)
    shutil.copy(f"{root}/{name}", f"{sources}/{name}")


def configure(project, folder, *options):
    return [cmake, "-S", f"{here}/{project}", "-B", f"{work}/{folder}", "-G", "Ninja", f"-DCMAKE_C_COMPILER={cc}",
            f"-DCMAKE_CXX_COMPILER={cxx}", f"-DCMAKE_PREFIX_PATH={prefix}", f"-DSOURCES={sources}", f"-DINCLUDES={sources}",
            *options]


def with_cmake():
    run(*configure("consumer_c", "c", "-DWANTED=static;shared"))
    run(cmake, "--build", work + "/c")
    run(*configure("consumer_cpp", "cpp"))
    run(cmake, "--build", work + "/cpp")
    for program in ("c/answer_c", "c/answer_c_shared", "cpp/answer_cpp"):
        expect_equal(run(f"{work}/{program}", model), wanted, program)
    # A program of C is linked as one, also where the project has C++ elsewhere.
    run(*configure("consumer_c", "both", "-DLANGUAGES=C;CXX"))
    run(cmake, "--build", work + "/both", "--target", "answer_c")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", work + "/both/answer_c"))
    if not needed or [name for name in needed if re.search("stdc|gcc", name)]:
        sys.exit(f"FAIL: a program of C needs {', '.join(needed)}")
    own = run(work + "/cpp/own_backend", model, 1, 17, 42).split()
    if len(own) != 8:
        sys.exit(f"FAIL: own_backend printed {own}, not 8 ids")
    must_fail("has no component frosted", *configure("consumer_c", "refused", "-DWANTED=frosted"))
    for version in ("0.9", "0.0"):   # until 1.0 only the same minor version is compatible
        must_fail(f'compatible with requested version "{version}"', *configure("consumer_c", "refused", f"-DVERSION={version}"))


def with_pkg_config():
    if shutil.which("pkg-config") is None:
        print("pkg-config is not on this machine: mote.pc was not used")
        return
    folders = [folder for folder, _, files in os.walk(prefix) if "mote.pc" in files]
    environment = dict(os.environ, PKG_CONFIG_PATH=":".join(folders))

    def ask(*options):
        return run("pkg-config", *options, "mote", env=environment).split()

    if not run(answer, model).startswith(ask("--modversion")[0] + " "):
        sys.exit("FAIL: mote.pc has another version than mote_version()")
    library_folder = os.path.dirname(folders[0])
    for name, compiler, standard, options in (("pc_c", cc, "-std=c99", []), ("pc_cpp", cxx, "-std=c++11", ["-x", "c++"]),
                                              ("pc_c_static", cc, "-std=c99", [])):
        program = f"{work}/{name}"
        libraries = ask("--libs")
        if name.endswith("static"):   # the archive, although libmote.so lies beside it
            libraries = [library_folder + "/libmote.a" if word == "-lmote" else word for word in ask("--static", "--libs")]
        run(compiler, standard, *options, "-I", sources, *ask("--cflags"), f"{sources}/tests/integration/answer.c", "-x", "none",
            "-o", program, *libraries)
        loaded = dict(os.environ, LD_LIBRARY_PATH=library_folder)
        expect_equal(run(program, model, env=loaded), wanted, name)
    # Without a libmote.so -lmote is the archive, whose own needs must then be there without --static.
    run(cmake, "-S", root, "-B", work + "/plain", "-G", "Ninja", f"-DCMAKE_C_COMPILER={cc}", f"-DCMAKE_CXX_COMPILER={cxx}",
        "-DMOTE_BUILD_TESTS=OFF", "-DMOTE_BUILD_EXAMPLES=OFF")
    environment["PKG_CONFIG_PATH"] = work + "/plain/generated"
    if not {"-lm", "-pthread"} <= set(ask("--libs")):
        sys.exit(f"FAIL: mote.pc of the archive alone names {ask('--libs')}, not what it needs")


def headers_are_whole():
    """What an installed header includes is installed too."""
    include = prefix + "/include/mote"
    headers = sorted(os.path.relpath(os.path.join(folder, name), include)
                     for folder, _, files in os.walk(include) for name in files if name.endswith((".h", ".hpp")))
    if "core/ops/backend.h" not in headers or "core/mote.hpp" not in headers:
        sys.exit(f"FAIL: only these headers were installed: {headers}")
    # From a folder without headers: those of the tree must not be found first.
    run(cxx, "-x", "c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", include, "-", cwd=work,
        input="".join(f'#include "{header}"\n' for header in headers))
    print(f"{len(headers)} installed headers compile")


headers_are_whole()
with_cmake()
with_pkg_config()
