# SPDX-License-Identifier: GPL-2.0
"""The manual pages render without warnings, and have what the sources have: smq(7) the modules
with their parameters, attributes and settings, smq_sg(4) the ABI of the node, and those of programs
their options. Those of sg_io are tested beside its completion."""

import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from manual import PAGES, TOP, entries, options, section, text_of

SMQ = TOP / "man/smq.7"
SG = TOP / "man/smq_sg.4"
HEADER = TOP / "include/uapi/scsi/smq_sg.h"
KERNEL_DOC = sorted(Path("/usr/lib").glob("linux-kbuild-*/scripts/kernel-doc"))
TARGETCLI = TOP / "man/targetcli-smq.8"
SYSFS = "/sys/class/scsi_host/hostN/"
# Arrays of attributes, and the subsection of smq(7) that has them.
PLACES = {
    "smq_host_attrs": SYSFS + "smq/",
    "smq_fault_attrs": SYSFS + "smq_fault/",
    "ram_fault_attrs": SYSFS + "smq_fault/",
    "batch_attrs": f"batch: {SYSFS}smq_batch/",
    "bucket_attrs": f"bucket: {SYSFS}smq_bucket/",
    "prio_attrs": f"prio: {SYSFS}smq_prio/",
    "steer_attrs": f"steer: {SYSFS}smq_steer/",
    "smq_legacy_attrs": f"legacy-model: {SYSFS}smq_legacy/",
    "conv_driver_attrs": "/sys/bus/scsi/drivers/smq_conv/",
    "vs_driver_attrs": "/sys/bus/virtio/drivers/smq_virtio/",
    "smqsg_attrs": "/sys/class/smq_sg/smqsgN/",
    "ram_host_attrs": "/sys/kernel/config/smq/ram/HOST/",
    "ram_lun_attrs": "/sys/kernel/config/smq/ram/HOST/luns/N/",
    "ram_model_attrs": "/sys/kernel/config/smq/ram/HOST/model/",
    "lio_tpg_attrs": "/sys/kernel/config/target/smq/WWN/tpgt_N/",
}
# How the sources say which values an attribute takes, and its default.
RANGES = (
    r"^[A-Z]+_ATTR\((\w+), (\w+), (\w+)\);",                # settings of policies
    r"&knobs->(\w+), (\d+),\s+(\w+)\);",
    r"^RAM_KNOB\((\w+), (.+)\);",                           # the model of smq_ram
    r'^\t\{ "(\w+)", offsetof\(struct smq_fault, \w+\), (.+) \},',
    r"^\tknobs->(\w+) = (\w+);",                            # defaults
    r"^\tfault->(\w+) = (\w+);",
    r"^\t\.(\w+) = (\d+),$",
)
# Constants of the kernel's headers; ours are looked up.
VALUES = {"U8_MAX": 2 ** 8 - 1, "UINT_MAX": 2 ** 32 - 1, "U32_MAX": 2 ** 32 - 1,
          "U64_MAX": 2 ** 64 - 1, "MSEC_PER_SEC": 1000, "NSEC_PER_MSEC": 10 ** 6,
          "NSEC_PER_SEC": 10 ** 9, "SZ_64K": 2 ** 16, "SZ_16M": 2 ** 24, "SAM_STAT_BUSY": 8,
          "true": 1}
# Pages of others that ours refer to.
FOREIGN = {"io_uring.7", "pkg-config.1", "sg.4", "sg3_utils.8", "targetcli.8"}
# Shown as words, not as numbers.
WORDS = {"SMQ_LEGACY_419", "MEDIUM_ERROR << 16 | 0x11 << 8"}


def sources(pattern="*/*.[ch]"):
    return {path: path.read_text(encoding="ascii")
            for path in sorted((TOP / "drivers").glob(pattern))}


def number(expression):
    """The value of a product of constants."""
    factors = []
    for word in re.sub(r"\((\w+)\)", "", expression).strip("()").split(" * "):
        if word not in VALUES and not word[0].isdigit():
            found = [define for path in (*(TOP / "include/smq").glob("*.h"), *sources())
                     for define in re.findall(rf"^#define {word}\s+(\w+)$",
                                              path.read_text(encoding="ascii"), re.M)]
            assert len(found) == 1, expression
            word = found[0]
        factors.append(VALUES[word] if word in VALUES else int(word, 0))
    return math.prod(factors)


def numbers(text):
    return {int(word, 0) for word in re.findall(r"\b0x[0-9a-f]+|\b\d+\b", text)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
@pytest.mark.parametrize("tool", [["mandoc", "-T", "lint", "-W", "warning"],
                                  ["groff", "-man", "-ww", "-z", "-Tutf8"]],
                         ids=lambda argv: argv[0])
def test_page_renders_without_warnings(tool, page):
    assert shutil.which(tool[0]), "tools/deps install lint"
    done = subprocess.run([*tool, page], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_refers_to_pages_that_exist(page):
    named = re.findall(r"^\.BR (\S+) \((\d)\)", section(page, "SEE ALSO"), re.M)
    assert {".".join(one) for one in named} <= FOREIGN | {one.name for one in PAGES}


def test_all_modules_are_listed():
    built = {name for path in (TOP / "drivers").glob("*/Kbuild")
             for name in re.findall(r"^obj-.* (\w+)\.o$", path.read_text(encoding="ascii"), re.M)}
    assert set(entries(section(SMQ, "MODULES"))) == built


def test_all_parameters_are_described():
    """With each number that the module's own description has."""
    text = section(SMQ, "MODULE PARAMETERS")
    modules = set()
    for folder in {path.parent for path in sources()}:
        code = "\n".join(sources(f"{folder.name}/*.c").values())
        names = re.findall(r"^module_param(?:_named)?\((\w+),", code, re.M)
        if not names:
            continue
        kbuild = (folder / "Kbuild").read_text(encoding="ascii")
        module = re.search(r"^obj-.* (\w+)\.o$", kbuild, re.M)[1]
        modules.add(module)
        page = entries(section(SMQ, module, "SS"))
        assert list(page) == names, module
        for name, says in re.findall(r'^MODULE_PARM_DESC\((\w+), "(.*)"\);', code, re.M):
            assert numbers(says) <= numbers(page[name]), f"{module} {name}"
    assert modules == set(re.findall(r"^\.SS (\w+)$", text, re.M))
    assert re.match(r"smq and smq_legacy have none\.", text)
    assert not modules & {"smq", "smq_legacy"}


def attributes():
    """The arrays of attributes in the sources: the folder, and the names of the attributes."""
    found = {}
    for path, code in sources("*/*.c").items():
        for name, body in re.findall(r"attribute \*(\w+)\[\] = \{\n(.*?)\n\};", code, re.S):
            found[name] = path.parent.name, re.findall(r"&\w*?attr_(\w+)", body)
    return found


def test_all_attributes_are_described():
    assert set(attributes()) == set(PLACES)
    for array, (_, names) in attributes().items():
        assert names and set(entries(section(SMQ, PLACES[array], "SS"))) == set(names), array
    described = re.findall(r"^\.SS (.*/.*)$", text_of(SMQ), re.M)
    assert set(described) == set(PLACES.values())


def test_ranges_and_defaults_are_those_of_the_sources():
    seen = 0
    for array, (folder, names) in attributes().items():
        page = entries(section(SMQ, PLACES[array], "SS"))
        code = "\n".join(sources(f"{folder}/*.c").values())
        for pattern in RANGES:
            for name, *values in re.findall(pattern, code, re.M):
                if name not in names or WORDS & set(values):
                    continue
                seen += 1
                assert {number(value) for value in values} <= numbers(page[name]), name
    assert seen >= 37


def test_kinds_of_faults_are_described():
    code = sources()
    known = [name for path in ("core/fault_set.c", "ram/medium_fault.c")
             for name in re.findall(r'^\t\[\w*FAULT_\w+(?: - \w+)?\]\s+= "(\w+)"',
                                    code[TOP / "drivers" / path], re.M)]
    text = section(SMQ, PLACES["smq_fault_attrs"], "SS")
    described = re.findall(r"^\.TP\n\.B (\w+)$", text.partition(".RS\n")[2].partition(".RE\n")[0],
                           re.M)
    assert known == ["none", *described]


def test_all_tracepoints_are_named():
    code = sources()[TOP / "drivers/core/trace.h"]
    events = re.findall(r"^(?:DEFINE_EVENT\(\w+, |TRACE_EVENT\()(\w+),", code, re.M)
    text = section(SMQ, "DEBUGFS AND TRACEPOINTS")
    assert sorted(re.findall(r"smq:(\w+)", text)) == sorted(events)


def structures():
    """The header's structures: their members without the reserved ones, and their comment."""
    text = HEADER.read_text(encoding="ascii")
    found = {}
    described = r"^/\*\*\n((?: \*(?!/).*\n)+) \*/\nstruct (\w+) \{\n((?:\t.*\n)+)\};"
    for doc, name, body in re.findall(described, text, re.M):
        names = re.findall(r"\b(\w+)(?:\[\w*\])?;", body)
        found[name] = {one for one in names if not one.startswith("reserved")}, doc
    assert len(found) == len(re.findall(r"^struct \w+ \{", text, re.M))
    return found


def test_node_page_has_all_names_of_the_header():
    fields = "SMQ_SG_FIELD_"
    text = HEADER.read_text(encoding="ascii")
    names = set(re.findall(r"^(?:#define |\t)(SMQ_SG_\w+)", text, re.M))
    names = {one for one in names if not one.startswith(fields)}
    named = set(re.findall(r"\bSMQ_SG_\w+", re.sub(rf"\b{fields}\w*", "", text_of(SG))))
    assert named == names


def test_node_page_describes_the_fields_by_a_rule():
    text = HEADER.read_text(encoding="ascii")
    fields = re.findall(r"^\tSMQ_SG_FIELD_(\w+) =", text, re.M)
    members = set.union(*(members for members, _ in structures().values()))
    assert {one.lower() for one in fields} - members == {"none", "reserved"}


def test_node_page_has_all_members_and_errors():
    heads = dict(re.findall(r"^\.SS ((?:.*: )?struct (\w+))$", text_of(SG), re.M))
    heads = {name: head for head, name in heads.items()}
    assert set(heads) == set(structures())
    for name, (members, doc) in structures().items():
        text = section(SG, heads[name], "SS")
        assert set(entries(text)) == members, name
        wrong = r"\bE[A-Z]{3,}\b"
        assert set(re.findall(wrong, doc)) <= set(re.findall(wrong, text)), name
    calls = dict(re.findall(r"^#define (\w+)\s+_IOW?R?\(\w+, \w+, struct (\w+)\)",
                            HEADER.read_text(encoding="ascii"), re.M))
    assert len(calls) == 8
    for call, name in calls.items():
        assert heads[name] == f"{call}: struct {name}"


def test_node_page_has_the_limits_of_the_header():
    text = HEADER.read_text(encoding="ascii")
    limits = dict(re.findall(r"^#define (SMQ_SG_MAX_\w+)\s+(\w+)$", text, re.M))
    page = entries(section(SG, "LIMITS"))
    assert set(page) == set(limits)
    for name, value in limits.items():
        value = limits.get(value, value).rstrip("U")
        assert int(value, 0) in numbers(page[name]), name


def test_node_page_has_the_ioctls_of_sg_that_are_answered():
    code = sources()[TOP / "drivers/sg/compat_query.c"]
    pattern = r"\b(?:SG|SCSI_IOCTL)_[A-Z_]+|\bBLKSECTGET"
    known = set(re.findall(pattern, "\n".join(re.findall(r"^\tcase .*:$", code, re.M))))
    named = set(re.findall(pattern, section(SG, "SG")))
    assert len(known) > 25 and named - {"SG_FLAG_MMAP_IO"} == known


def test_example_of_the_node_page_is_that_of_the_header():
    comment = HEADER.read_text(encoding="ascii").split("*/")[1]
    example = [line[3:] for line in comment.splitlines() if line.startswith(" *\t")]
    shown = section(SG, "EXAMPLES").partition(".EX\n")[2].partition(".EE\n")[0]
    assert [line.replace("\\e", "\\") for line in shown.splitlines() if line] == example


def help_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def test_page_of_fc_check_has_all_options_and_levels():
    page = TOP / "tools/src/fc_check/fc-check.8"
    said = help_of(TOP / "tools/fc-check", "--help")
    listed = said.partition("\noptions:\n")[2].partition("\n\n")[0]
    found = set(re.findall(r"^  (?:-., )?(--[a-z-]+)", listed, re.M))
    assert len(found) == 5 and options(section(page, "OPTIONS")) == found
    levels = re.findall(r"(?:levels:|;)\s(\w+):", said.partition("\nlevels:")[1] +
                        said.partition("\nlevels:")[2].partition("\n\n")[0])
    assert list(entries(section(page, "FINDINGS"))) == levels
    ends = re.findall(r"(?:exit status:|;)\s(\d) ", said)
    assert list(entries(section(page, "EXIT STATUS"))) == ends


def test_page_of_targetcli_smq_has_all_configurations():
    """The program itself has no options."""
    assert options(text_of(TARGETCLI)) == set()
    named = re.findall(r"^\.I (\w+\.json)$", text_of(TARGETCLI), re.M)
    assert sorted(named) == sorted(path.name for path in TOP.glob("target-configs/*.json"))


def test_page_of_targetcli_smq_has_the_commands_of_soft_fc():
    said = help_of(TOP / "target-configs/soft-fc", "--help")
    commands = re.findall(r"^  (\w+) ", said, re.M)
    assert commands and list(entries(section(TARGETCLI, "soft-fc", "SS"))) == commands


def test_headers_give_a_page_for_all_that_they_describe(tmp_path):
    """And kernel-doc finds no mistakes in them."""
    assert KERNEL_DOC, "tools/deps install build"
    described = {path: re.findall(r"^/\*\*\n \* (?:struct |enum )?(\w+)(?:\(\))? - ",
                                  path.read_text(encoding="ascii"), re.M)
                 for path in (HEADER, *(TOP / "include/smq").glob("*.h"))}
    exported = {name for code in sources("core/*.c").values()
                for name in re.findall(r"^EXPORT_SYMBOL_GPL\((\w+)\);", code, re.M)}
    for path, names in described.items():
        # Only the code of SMQ_LLD_TEMPLATE() calls what is declared in lld_template.h.
        if path.name != "lld_template.h":
            declared = re.findall(r"^(?!static|extern)\w[\w \t*]*?\b(smq_\w+)\([^;{}]*\);$",
                                  path.read_text(encoding="ascii"), re.M)
            assert exported & set(declared) <= set(names), path
    done = subprocess.run([KERNEL_DOC[-1], "-v", "-none",
                           *(path for path, names in described.items() if names)],
                          capture_output=True, text=True, check=False, timeout=60)
    assert [line for line in done.stderr.splitlines() if ": info: " not in line] == []
    subprocess.run([TOP / "tools/man9", KERNEL_DOC[-1], tmp_path], check=True, timeout=60)
    pages = sorted(tmp_path.iterdir())
    names = {name for names in described.values() for name in names}
    assert len(names) > 70 and {page.name for page in pages} == {f"{name}.9" for name in names}
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *pages], capture_output=True,
                          text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
