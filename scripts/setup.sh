#!/usr/bin/env bash
# Make .venv from requirements-dev.lock, and see that Spark will find a Java it can run on.
# PYTHON=/path/to/python chooses the interpreter; JAVA_HOME chooses the Java.
set -eu
cd "$(dirname "$0")/.."

readonly minimum_java=17

say() { printf 'penstock setup: %s\n' "$*"; }
stop() {
    printf 'penstock setup: %s\n' "$@" >&2
    exit 1
}

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

apt_install() {
    say "installing $* with apt-get"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

find_python() {
    for candidate in ${PYTHON:-} python3.11 python3.12 python3.13 python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
}

make_environment() {
    local python
    python="$(find_python)"
    [ -n "$python" ] || stop "Python 3.11 or newer is needed, and none was found." \
        "Install it (Debian, Ubuntu: apt-get install python3 python3-venv), or say PYTHON=/path/to/python make setup."
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        if ! can_apt || ! apt_install python3-venv; then
            stop "$python cannot make virtual environments." "Install its venv module: apt-get install python3-venv"
        fi
    fi
    if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        say "creating .venv with $("$python" --version)"
        "$python" -m venv --clear .venv
    fi
    say "installing the packages of requirements-dev.lock"
    .venv/bin/python -m pip install -qq --disable-pip-version-check -r requirements-dev.lock
    .venv/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
}

# The Java that Spark will take: JAVA_HOME if it is set, otherwise the one on PATH.
java_command() {
    if [ -n "${JAVA_HOME:-}" ]; then echo "$JAVA_HOME/bin/java"; else command -v java || true; fi
}

# Its major version: 17 for "17.0.15", 8 for "1.8.0_402", 0 if it does not run.
java_version() {
    local text
    text="$("$(java_command)" -version 2>&1 | sed -n 's/.* version "\([0-9][0-9.]*\).*/\1/p' | head -n 1)" || true
    text="${text#1.}"
    echo "${text%%.*}" | grep -E '^[0-9]+$' || echo 0
}

check_java() {
    if [ "$(java_version)" -lt "$minimum_java" ] && [ -z "${JAVA_HOME:-}" ] && can_apt; then
        apt_install openjdk-17-jre-headless || apt_install default-jre-headless || true
    fi
    local found
    found="$(java_version)"
    if [ "$found" -lt "$minimum_java" ]; then
        local came="no Java was found on PATH"
        [ -z "$(java_command)" ] || came="$(java_command) is not one (version found: $found)"
        stop "Spark needs Java $minimum_java or newer, and $came." \
            "Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless" \
            "Fedora:          sudo dnf install java-17-openjdk-headless" \
            "macOS:           brew install openjdk@17" \
            "Then run the command again. If Java is elsewhere, set JAVA_HOME to its folder."
    fi
    say "Java $found at $(java_command)"
}

make_environment
check_java
say "ready"
