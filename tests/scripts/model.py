"""The path of the small model in the cache, fetched when it is not there."""
import subprocess


def smollm2(root):
    script = 'mote_root=$1; . "$1/tools/dependencies.sh"; need_model smollm2'
    return subprocess.run(["sh", "-c", script, "sh", root], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
