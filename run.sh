#!/usr/bin/env bash
# Install Glassformer into .venv and run its demo: ./run.sh, or ./run.sh "a number or a date in words".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. scripts/environment.sh

make_environment
install_package demo
exec .venv/bin/glass demo "$@"
