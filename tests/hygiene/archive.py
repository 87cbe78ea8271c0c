"""Reads the symbols and sections of the library's object files and fails on what would break a promise.

  archive.py OBJECT_LIST NM READELF        OBJECT_LIST: a text file, one object file a line

Object files rather than the archive, because their paths say which part they belong to; the archive is made of them.
"""
import platform
import re
import subprocess
import sys

import objects
import tree

MATH = """exp exp2 exp10 expm1 log log2 log10 log1p pow sin cos tan sincos asin acos atan atan2 sinh cosh tanh asinh acosh
          atanh erf erfc tgamma lgamma cbrt hypot""".split()

# name, parts it holds for, symbols that may not be asked for (a whole match), why
EVERYWHERE = ["core/", "backends/", "platform/"]
PORTABLE = ["core/", "backends/"]
UNDEFINED = [
    ("libm's transcendental functions", EVERYWHERE,
     "(__)?(%s)(f|l|f16|f32|f64|f128)?(_finite)?" % "|".join(MATH), "their bits differ from libc to libc; core/base/math has ours"),
    ("exceptions", EVERYWHERE, "__cxa_(throw|rethrow|allocate_exception|free_exception|begin_catch|end_catch|bad_cast"
     "|bad_typeid|throw_bad_array_new_length).*|_Unwind_.*|__g(xx|cc)_personality_.*|_ZSt\\d*__throw_.*|_ZSt9terminatev",
     "the library is built without them"),
    ("run-time types", EVERYWHERE, "_ZT[IS].*|__dynamic_cast|_ZTVN10__cxxabiv1.*", "the library is built without them"),
    ("ending the process", EVERYWHERE, "abort|exit|_exit|_Exit|quick_exit|raise|__assert_fail|__assert|pthread_exit",
     "an error is a Status"),
    ("printing", EVERYWHERE, "(__)?v?[fd]?printf(_chk)?|puts|fputs|putchar|fputc|fwrite|perror|syslog|_ZNSo.*|_ZSt4cout|_ZSt4cerr",
     "the library never prints"),
    ("libc's formatting", PORTABLE, "(__)?v?sn?printf(_chk)?|strto.*|ato[fil].*", "it depends on the locale"),
    ("signal handlers", EVERYWHERE, "signal|bsd_signal|sysv_signal|sigaction|sigset|sigignore|siginterrupt|sigaltstack",
     "signals are the host's"),
    ("heap", PORTABLE, "malloc|calloc|realloc|reallocarray|free|aligned_alloc|memalign|posix_memalign|strn?dup"
     "|_Zn[wa].*|_Zd[la].*|mmap(64)?|munmap|brk|sbrk", "memory comes from an Arena"),
    ("static objects", EVERYWHERE, "__cxa_atexit|atexit|__cxa_guard_.*|__dso_handle", "nothing runs before main or after it"),
    ("the operating system", PORTABLE, "pthread_.*|open(64)?|openat(64)?|read|write|close|ioctl|getenv|secure_getenv|time|clock"
     "|clock_gettime|gettimeofday|rand|srand|random|localtime.*|setlocale|dlopen|dlsym|sched_.*|syscall|fork|fopen(64)?",
     "core and backends reach it through platform/"),
]
# Sections that may not be there: name, parts it holds for, why.
SECTIONS = [
    (r"\.(init_array|fini_array|ctors|dtors|preinit_array)(\..*)?", EVERYWHERE, "a static constructor or destructor"),
    (r"\.t?(data|bss)(?!\.rel\.ro)(\..*)?|COMMON", PORTABLE, "a global that can be written"),
    (r"\.gcc_except_table(\..*)?", EVERYWHERE, "code that catches exceptions"),
]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main():
    object_list, nm, readelf = sys.argv[1:4]
    findings, checked, newer, has_cpu = [], 0, 0, False
    for path, part in objects.parts(object_list, findings):
        checked += 1
        has_cpu |= "/cpu/" in part
        for line in run(nm, "--undefined-only", "--format=posix", path).splitlines():
            symbol = line.split()[0].split("@")[0]
            findings.extend(f"{part}: asks for {symbol} ({name}: {why})" for name, parts, pattern, why in UNDEFINED
                            if part.startswith(tuple(parts)) and re.fullmatch(pattern, symbol))
        if re.fullmatch(objects.NEWER_PROCESSOR, part):
            newer += 1
            for line in run(nm, "--defined-only", "--format=posix", path).splitlines():
                symbol, kind = line.split()[:2]
                if kind in "WwVvu":
                    findings.append(f"{part}: defines {symbol} for all to share (an older processor may get this copy)")
        # [Nr] Name Type Address Off Size ...
        for section, size in re.findall(r"^\s*\[\s*\d+\] (\S+)\s+\S+\s+[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+)",
                                        run(readelf, "--sections", "--wide", path), flags=re.MULTILINE):
            findings.extend(f"{part}: section {section} of {int(size, 16)} bytes ({why})" for pattern, parts, why in SECTIONS
                            if int(size, 16) and part.startswith(tuple(parts)) and re.fullmatch(pattern, section))
    if platform.machine() in ("x86_64", "AMD64") and newer == 0 and has_cpu:
        findings.append("no object for a newer processor was found")
    tree.end(findings, checked)


main()
