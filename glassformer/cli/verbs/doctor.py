"""`glass doctor`: checks the installation and what this machine offers."""

from __future__ import annotations

from ..output.terminal import print_heading, print_json, print_table


def doctor(*, json: bool = False) -> int:
    """Check the installation: versions, devices, cache, mirror, and a self-test of the tokenizer.

    Every line is ok, a warning or a fault; ends with 1 if there is a fault. No connection is opened.

    examples:
      glass doctor
      glass doctor --json

    Args:
        json: Print JSON.
    """
    from ..checks.machine_checks import FAULT, WARNING, all_checks

    checks = all_checks()
    faults, warnings = (sum(check.state == state for check in checks) for state in (FAULT, WARNING))
    if json:
        print_json({"healthy": not faults, "checks": [vars(check) for check in checks]})
        return int(faults > 0)
    for group in dict.fromkeys(check.group for check in checks):
        print_heading(group)
        rows = [(check.state, check.name, check.finding) for check in checks if check.group == group]
        print_table(("", "", ""), rows)
        print()
    print(f"faults: {faults}, warnings: {warnings}" if faults or warnings else "all is well")
    return int(faults > 0)
