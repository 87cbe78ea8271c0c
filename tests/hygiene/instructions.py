"""Disassembles the library's object files for x86-64: what not every such processor has stands only in sources that were
compiled for a newer one, which are chosen at run time.

  instructions.py OBJECT_LIST OBJDUMP        OBJECT_LIST: a text file, one object file a line
"""
import re
import shutil
import subprocess
import sys

import objects
import tree

# Everything encoded with VEX or EVEX begins with a v; the rest came after SSE2. tzcnt is left out: compilers write it where
# an older processor's bsf gives the same.
NEWER = re.compile(
    r"v(?!err|erw|mcall|mlaunch|mresume|mxo)[a-z0-9]+|andn|bextr|bls(i|msk|r)[lq]?|bzhi|pdep|pext|mulx|rorx|s[ah][rl]x|lzcnt[wlq]?"
    r"|popcnt[wlq]?|crc32[bwlq]?|movbe[wlq]?|adcx|adox|k(mov|and|or|xor|not|shift|test|unpck)\w*|h(add|sub)p[sd]|addsubp[sd]|lddqu"
    r"|mov(d|sh|sl)dup|pshufb|pabs[bwd]|ph(add|sub)\w+|pmaddubsw|pmulhrsw|psign[bwd]|palignr|p(m(ax|in)(sb|sd|uw|ud)|mulld|muldq)"
    r"|p(blendw|blendvb)|blendv?p[sd]|dpp[sd]|pmov[sz]x\w+|ptest|round[ps][sd]|insertps|extractps|pinsr[bdq]|pextr[bdq]|packusdw"
    r"|pcmp(eq|gt)q|pcmp[ei]str[im]|mpsadbw|phminposuw|aes\w+|pclmul\w+|sha(1|256)\w+")
LINE = re.compile(r"^\s*[0-9a-f]+:\t(?:(?:rep[a-z]*|lock|notrack|bnd|data16|cs|ds|es|fs|gs|rex\S*) )*([a-z]\w*)")


def main():
    object_list, objdump = sys.argv[1:3]
    if not shutil.which(objdump):
        print(f"{objdump} is not on this machine")
        sys.exit(77)
    findings, seen, newer = [], 0, set()
    for path, part in objects.parts(object_list, findings):
        text = subprocess.run([objdump, "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
        words = [match.group(1) for match in map(LINE.match, text.splitlines()) if match]
        seen += len(words)
        found = sorted({word for word in words if NEWER.fullmatch(word)})
        if re.fullmatch(objects.NEWER_PROCESSOR, part):
            newer.update(found)
        elif found:
            findings.append(f"{part}: holds {', '.join(found[:12])}")
    # Were the patterns wrong, nothing would be found in the kernels either.
    if len(newer) < 20:
        findings.append(f"the kernels for newer processors hold only {sorted(newer)}")
    print(f"{seen} instructions; the kernels hold {len(newer)} kinds of newer ones")
    tree.end(findings, seen)


main()
