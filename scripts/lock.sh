#!/usr/bin/env bash
# Resolve the dependencies of pyproject.toml into the two lock files. The locks name versions only: no index, no host
# and no hashes, so that they serve any mirror and any platform.
set -eu
cd "$(dirname "$0")/.."

compile="${COMPILER:-.venv/bin/pip-compile}"
options=(--quiet --strip-extras --allow-unsafe --no-header --no-annotate
    --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options)

"$compile" "${options[@]}" "$@" --output-file requirements.lock pyproject.toml
# The first lock constrains the second: both name one version of everything they share.
"$compile" "${options[@]}" "$@" --extra dev --constraint requirements.lock \
    --output-file requirements-dev.lock pyproject.toml

# pip-tools remarks that pip and setuptools are pinned too; they are meant to be.
sed -i.bak -e '/^#/d' -e '/^$/d' requirements.lock requirements-dev.lock && rm requirements*.lock.bak

if grep -nE '://|^--' requirements.lock requirements-dev.lock; then
    echo "A lock file names a host or an option; it should name versions only." >&2
    exit 1
fi
wc -l requirements.lock requirements-dev.lock
