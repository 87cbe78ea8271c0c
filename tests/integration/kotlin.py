"""Compiles the Kotlin classes and runs them on a JVM with the Java bridge; compiles the part for Android against its API.

  kotlin.py ROOT WORK JNI_LIBRARY ANSWER MODEL        MOTE_KOTLIN: a folder of jars (tools/kotlin.sh)

Status 77 without MOTE_KOTLIN or a JVM.
"""
import glob
import os
import shutil
import sys

from steps import expect_equal, run

root, work, library, answer, model = sys.argv[1:]
jars = os.environ.get("MOTE_KOTLIN")
java = os.path.join(os.environ["JAVA_HOME"], "bin/java") if os.environ.get("JAVA_HOME") else shutil.which("java")
if not jars or not java:
    print("MOTE_KOTLIN names no jars, or there is no JVM: the Java bridge was not run")
    sys.exit(77)
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
stdlib = glob.glob(jars + "/kotlin-stdlib-[0-9]*.jar")[0]
android = glob.glob(jars + "/android-all-*.jar")[0]
bridge = root + "/examples/android"


def kotlinc(to, class_path, *sources):
    # No background daemon, and the quick JVM: it runs for seconds.
    run(java, "-XX:TieredStopAtLevel=1", "-cp", jars + "/*", "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", "-no-stdlib", "-no-reflect",
        "-Werror", "-jvm-target", "11", "-cp", ":".join([stdlib, *class_path]), "-d", to, *sources)


kotlinc(work + "/classes", [], bridge + "/Mote.kt", root + "/tests/integration/jvm/Answer.kt")
kotlinc(work + "/android", [work + "/classes", android], bridge + "/Assets.kt")
print("the part for Android compiles")

# The model as an asset: behind other bytes of a larger file.
with open(model, "rb") as source, open(work + "/package.apk", "wb") as package:
    package.write(b"\xa5" * 4096 + source.read())
line = run(answer, model)
ids = line.split()[1:-1]
printed = run(java, "-Xcheck:jni", "-Djava.library.path=" + os.path.dirname(library), "--add-opens", "java.base/java.io=ALL-UNNAMED",
              "-cp", f"{work}/classes:{stdlib}", "mote.test.AnswerKt", model, work + "/package.apk", *ids)
if "WARNING in native method" in printed or "FATAL" in printed:
    sys.exit("FAIL: the JVM's check of native code says\n" + printed)
expect_equal(printed, line.rsplit(" ", 1)[0], "Kotlin")
