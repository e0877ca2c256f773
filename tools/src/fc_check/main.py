# SPDX-License-Identifier: GPL-2.0
"""The command line of fc-check."""
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from pathlib import Path

from . import fc, iscsi, luns, queues, report, sas
from .finding import ERROR, NOTE, Finding, merged
from .machine import Host, hosts
from .sysfs import Sysfs

DESCRIPTION = """\
Reports settings of this machine that are wrong for SCSI commands that are prepared in advance:
hardware queues and their interrupts, queue depth, timeouts, ports and sessions, elevators; for
FC, iSCSI and SAS. Each finding says what is set, why that matters, and which command changes it.
fc-check does not run these commands."""
EPILOG = """\
levels: error: something does not work; warning: something is slow or at risk; note: something
that cannot be changed here, or may be intended

exit status: 0 no errors or warnings; 1 errors or warnings; 2 fc-check could not run

examples:
  fc-check
  fc-check --host host3 --json
  fc-check --sysfs copy/sys --proc copy/proc"""
MODULES = {module.TRANSPORT: module for module in (fc, iscsi, sas)}


def parse(arguments: list[str]) -> Namespace:
    """Parses the options."""
    parser = ArgumentParser(prog="fc-check", description=DESCRIPTION, epilog=EPILOG,
                            formatter_class=RawDescriptionHelpFormatter, allow_abbrev=False)
    add = parser.add_argument
    add("--json", action="store_true", help="output for programs")
    add("--host", metavar="HOST", action="append",
        help="only this host, for example host3; may be repeated")
    add("--sysfs", metavar="DIR", type=Path, help="a copy of a machine's /sys")
    add("--proc", metavar="DIR", type=Path,
        help="a copy of that machine's /proc; with --sysfs alone interrupts are not checked")
    options = parser.parse_args(arguments)
    for directory in (options.sysfs, options.proc):
        if directory and not directory.is_dir():
            parser.error(f"{directory}: not a directory")
    if options.proc and not options.sysfs:
        parser.error("--proc: needs --sysfs")
    return options


def no_host(sysfs: Sysfs) -> list[Finding]:
    """A finding if the machine has no host of the three transports."""
    if not any(sysfs.names("class", group) for group in ("fc_host", "iscsi_host", "sas_host")):
        return [Finding("no-host", ERROR, ["/sys/class"], "no FC, iSCSI or SAS host",
                        "No driver is bound to an HBA (FC: PCI class 0c04, SAS: 0107), and there "
                        "is no iSCSI session.",
                        ["lspci -nnk -d ::0c04", "modprobe -a qla2xxx lpfc"])]
    return []


def checked(found: list[Host], sysfs: Sysfs) -> list[Finding]:
    """Runs all checks on these hosts, and looks for smq_sg's nodes."""
    result = []
    for host in found:
        for check in (*MODULES[host.transport].CHECKS, *queues.CHECKS, *luns.CHECKS):
            result += check(host)
    result += luns.paths(found)
    if found and not sysfs.names("class/smq_sg"):
        result.append(Finding("smq-sg", NOTE, ["/dev"], "no node of smq_sg",
                              "Prepared commands need the module.", ["modprobe smq_sg"]))
    return merged(result)


def main(arguments: list[str]) -> int:
    """Checks and reports; returns the exit status."""
    options = parse(arguments)
    sysfs = Sysfs(options.sysfs or Path("/sys"), options.proc if options.sysfs else Path("/proc"))
    every = hosts(sysfs)
    chosen = [host for host in every if not options.host or host.name in options.host]
    unknown = set(options.host or ()) - {host.name for host in every}
    if unknown:
        print(f"fc-check: {', '.join(sorted(unknown))}: no FC, iSCSI or SAS host; there are: "
              f"{' '.join(host.name for host in every) or 'none'}", file=sys.stderr)
        return 2
    words = {host.name: MODULES[host.transport].describe(host) for host in chosen}
    found = no_host(sysfs) or checked(chosen, sysfs)
    if options.json:
        print(report.as_json(chosen, words, found))
    else:
        for host in chosen:
            print(report.heading(host, words[host.name]))
        for one in found:
            print(report.finding(one))
        print(report.summary(found))
    return report.status(found)
