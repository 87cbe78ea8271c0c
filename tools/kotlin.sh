# shellcheck shell=sh
# A Kotlin compiler and Android's API to compile against, for the tests of the Java bridge. Source this file after
# dependencies.sh, then call
#
#   need_kotlin    prints a folder of jars; status 1 and a sentence where they cannot be had. Sets nothing
#   find_java_home prints JAVA_HOME of the JDK on PATH
#
# maven fetches them by name into the cache; nothing is built by it. About 200 MB, once.
mote_cache=${mote_cache:?source tools/dependencies.sh first}

# SHA-256, file, Maven's name of it. android-all (Apache-2.0) is to compile against, never to ship.
kotlin_jars='
ef19419c765e7ac8404465fa026ca8fc4dbb8a822de0fc79aa53c8dce29f1d02 kotlin-compiler-embeddable-2.4.21.jar   org.jetbrains.kotlin:kotlin-compiler-embeddable:2.4.21
bd8250210584cb659847dce9cda660f8e9906e5def7fbebcea93dc6dcb6a88a3 kotlin-stdlib-2.4.21.jar                org.jetbrains.kotlin:kotlin-stdlib:2.4.21
a658cf5902a1525a06c264a5e42b437e97a6679ddeef8ca641246f270cf6a013 kotlin-script-runtime-2.4.21.jar        org.jetbrains.kotlin:kotlin-script-runtime:2.4.21
c5cd6a49bd072b529ae10809111c16a7aa0f92147e95d288354017fd65799461 kotlin-build-tools-api-2.4.21.jar       org.jetbrains.kotlin:kotlin-build-tools-api:2.4.21
7b3ef24674e5bcffcadfc4e43202ea314194939ecbcdd90a4770b2f1b04e0d07 kotlin-daemon-embeddable-2.4.21.jar     org.jetbrains.kotlin:kotlin-daemon-embeddable:2.4.21
3277ac102ae17aad10a55abec75ff5696c8d109790396434b496e75087854203 kotlin-reflect-1.6.10.jar               org.jetbrains.kotlin:kotlin-reflect:1.6.10
ace2a10dc8e2d5fd34925ecac03e4988b2c0f851650c94b8cef49ba1bd111478 annotations-13.0.jar                    org.jetbrains:annotations:13.0
9860906a1937490bf5f3b06d2f0e10ef451e65b95b269f22daf68a3d1f5065c5 kotlinx-coroutines-core-jvm-1.8.0.jar   org.jetbrains.kotlinx:kotlinx-coroutines-core-jvm:1.8.0
6be2218c6a53fe3c57bc22ebdc723edcb7270a8a6f187545708aa5c0ed813977 android-all-14-robolectric-10818077.jar org.robolectric:android-all:14-robolectric-10818077
'

find_java_home() {
  if [ -n "${JAVA_HOME:-}" ]; then
    echo "$JAVA_HOME"
  else
    javac=$(command -v javac) && javac=$(readlink -f "$javac") && echo "${javac%/bin/javac}"
  fi
}

kotlin_jars_are_right() {
  printf '%s' "$kotlin_jars" | awk -v folder="$1" 'NF { print $1 "  " folder "/" $2 }' | sha256sum -c --status 2> /dev/null
}

need_kotlin() {
  folder=$mote_cache/kotlin-2.4.21
  if ! kotlin_jars_are_right "$folder"; then
    work=$(mktemp -d "$mote_cache/.kotlin.XXXXXX") || return 1
    say "Downloading Kotlin 2.4.21 and Android's API with maven (log: $mote_cache/maven.log)"
    {
      echo '<project><modelVersion>4.0.0</modelVersion><groupId>mote</groupId><artifactId>jars</artifactId><version>1</version>'
      echo '<packaging>pom</packaging><dependencies>'
      printf '%s' "$kotlin_jars" | awk 'NF { split($3, part, ":"); print "<dependency><groupId>" part[1] "</groupId><artifactId>" \
        part[2] "</artifactId><version>" part[3] "</version></dependency>" }'
      echo '</dependencies></project>'
    } > "$work/pom.xml"
    mvn -q -B -f "$work/pom.xml" dependency:copy-dependencies -DoutputDirectory="$work/jars" > "$mote_cache/maven.log" 2>&1 ||
      { say "maven could not fetch Kotlin: $(grep -m 1 ERROR "$mote_cache/maven.log")"; rm -rf "$work"; return 1; }
    kotlin_jars_are_right "$work/jars" || { say "the jars of Kotlin are not the pinned ones"; rm -rf "$work"; return 1; }
    rm -rf "$folder"
    mv "$work/jars" "$folder"
    rm -rf "$work"
  fi
  echo "$folder"
}
