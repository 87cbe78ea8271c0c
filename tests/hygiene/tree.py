"""What the checks of this folder share: the list of the project's own files, and how a check ends."""
import os
import subprocess
import sys


def files(root, *suffixes):
    """Paths from the root, '/' between folders, of all files that git tracks or would add; sorted."""
    try:
        listed = subprocess.run(
            ["git", "-C", root, "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True, check=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive
        listed = []
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name not in ("build", ".git", "__pycache__")]
            listed += [os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/") for name in names]
    found = sorted({path for path in listed
                    if path and path.endswith(suffixes or "") and os.path.isfile(os.path.join(root, path))})
    if not found:
        sys.exit("no files at all under " + root)
    return found


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def end(findings, checked):
    """Prints the findings and leaves: status 1 when there are any, or when nothing was checked."""
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings in {checked} things checked")
    sys.exit(1 if findings or not checked else 0)
