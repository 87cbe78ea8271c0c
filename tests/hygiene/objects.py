"""The library's object files as the checks of them see them: a list of paths, one a line, and the part each belongs to."""
import os
import re

# Sources compiled for more than the baseline: the linker could pick their copy of a shared function for everybody.
NEWER_PROCESSOR = r".*_(avx2|avxvnni|avx512\w*|f16c|neon|dotprod|i8mm|sve)\.cpp\.o(bj)?"


def parts(object_list, findings):
    """(path, part) of each; what belongs to no part is a finding."""
    with open(object_list, encoding="utf-8") as file:
        for path in filter(None, map(str.strip, file)):
            match = re.search(r"mote\.dir/((core|backends|platform)/.*)", os.path.normpath(path).replace("\\", "/"))
            if match:
                yield path, match.group(1)
            else:
                findings.append(f"{path}: belongs to no part that this check knows")
